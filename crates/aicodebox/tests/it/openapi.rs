//! `/openapi.json` and `/docs`: for everybody, and true.

use crate::harness::Server;

#[test]
fn what_is_described_is_there() {
    let server = Server::new().token("t").start();
    let nobody = [("Authorization", "Bearer wrong")];
    let answer = server.send("GET", "/openapi.json", &nobody, None).status(200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let document = answer.field("/openapi", "3.1.0").json();
    assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    for (path, methods) in document["paths"].as_object().unwrap() {
        let place = path.replace("{id}", "0123456789abcdef0123456789abcdef").replace("{path}", "a/b");
        for (method, operation) in methods.as_object().unwrap() {
            let answer = server.send(&method.to_uppercase(), &place, &nobody, None);
            let expected = if operation.get("security").is_some() { 401 } else { 200 };
            answer.status(expected);
        }
    }
}

#[test]
fn the_page_loads_nothing_from_elsewhere() {
    let server = Server::new().token("t").start();
    let answer = server.send("GET", "/docs", &[("Authorization", "Bearer wrong")], None).status(200);
    assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(!answer.body.contains("://"), "{}", answer.body);
    assert!(answer.header("content-security-policy").unwrap().contains("default-src 'none'"));
}
