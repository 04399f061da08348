use std::{fs, os::unix::fs::PermissionsExt};

use aicodebox_engine::{
    adapter::{
        Adapter,
        python::{PythonError, load_python},
    },
    process::variables,
    run::Verdict,
};

use super::fixture::{Box_, environment, load, pool, python_path, within};

#[tokio::test]
async fn the_class_says_who_it_is() {
    let adapter = load("plain:Plain", environment(&python_path())).await.unwrap();
    let info = adapter.info();
    assert_eq!((info.name.as_str(), info.binary.as_deref()), ("plain", Some("cat")));
    assert_eq!(info.models, ["small", "large"]);
    assert_eq!(info.efforts, ["low", "high"]);
}

#[tokio::test]
async fn what_cannot_be_loaded_says_what_to_do() {
    let message =
        async |spec: &str, path: &str| load(spec, environment(path)).await.err().unwrap().to_string();
    let here = python_path();
    assert_eq!(
        message("plain", &here).await,
        "\"plain\" names no Python adapter: it must be package.module:Class"
    );
    assert_eq!(
        message("no_such_module:Class", &here).await,
        "the Python adapter no_such_module:Class cannot be loaded: ModuleNotFoundError: No module named \
         'no_such_module'. It is looked for in PYTHONPATH and in site-packages"
    );
    let missing = message("plain:Nothing", &here).await;
    assert!(missing.contains("the module plain has no Nothing"), "{missing}");
    let no_package = message("plain:Plain", "/nowhere").await;
    assert!(no_package.starts_with("python3 has no package aicodebox"), "{no_package}");
    assert!(no_package.contains("No module named"), "{no_package}");
}

#[tokio::test]
async fn relative_paths_are_meant_from_where_the_server_was_started() {
    // Cargo starts tests in the directory of their crate.
    let adapter = load("plain:Plain", environment("../../docker/python:tests/python:")).await.unwrap();
    assert_eq!(adapter.info().name, "plain");
}

#[tokio::test]
async fn without_python_it_says_so() {
    let empty = tempfile::tempdir().unwrap();
    let mut environment = environment(&python_path());
    environment.extend(variables([("PATH", empty.path())]));
    match load("plain:Plain", environment).await.err() {
        Some(PythonError::NoPython(_)) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_module_in_a_workspace_is_never_imported() {
    // The bridge must not look where agents write. It is started in a directory of its own.
    let box_ = Box_::new("plain:Plain").await;
    fs::write(box_.path().join("json.py"), "raise SystemExit('imported from the workspace')").unwrap();
    assert_eq!(box_.ask("still here").await.verdict, Verdict::Ok);
}

#[tokio::test]
async fn the_bridge_ends_with_the_pool() {
    // A python3 whose pid we know: it writes its own before it becomes the real one.
    let path = super::fixture::path_of_this_test();
    let real =
        std::env::split_paths(&path).map(|dir| dir.join("python3")).find(|path| path.exists()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (wrapper, pid) = (dir.path().join("python3"), dir.path().join("pid"));
    let script = format!("#!/bin/sh\necho $$ > '{}'\nexec '{}' \"$@\"\n", pid.display(), real.display());
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let environment = environment(&python_path());
    let paths = std::iter::once(dir.path().to_owned()).chain(std::env::split_paths(&path));
    let paths = std::env::join_paths(paths).unwrap();
    let pool = pool().await;
    let adapter = load_python("plain:Plain", pool.clone(), environment.into(), Some(&paths)).await.unwrap();
    let pid = fs::read_to_string(pid).unwrap();
    let process = format!("/proc/{}", pid.trim());
    assert!(fs::exists(&process).unwrap());
    within(10, pool.close()).await;
    assert!(!fs::exists(&process).unwrap(), "{process} lives");
    drop(adapter);
}
