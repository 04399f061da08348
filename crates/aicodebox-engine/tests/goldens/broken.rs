use aicodebox_engine::adapter::{FileAdapter, LoadErrors};

const TEXT: &str =
    "schema = 1\nname = \"x\"\n[run]\nargv = []\nstdin = \"{prompt}\"\n[output]\nformat = \"text\"\n";

/// A JSON-lines file with one rule.
fn lines() -> String {
    TEXT.replace("\"text\"", "\"jsonl\"") + "[[event]]\nmatch = { \"/t\" = \"a\" }\nmessage = \"/m\"\n"
}

fn file_with_argv(argv: &str) -> String {
    TEXT.replace("argv = []", &format!("argv = {argv}"))
}

fn errors(text: &str) -> LoadErrors {
    FileAdapter::load(text, "x.toml").map(|_| ()).expect_err(text)
}

#[test]
fn the_files_that_are_broken_here_are_good_when_they_are_not() {
    let argv = |argv: &str| file_with_argv(argv).replace("stdin = \"{prompt}\"\n", "");
    let by_model = argv(
        "[{ when = \"model\", args = [\"{model}\", \"--\", \"{prompt}\"] }, { when = \"!model\", args = [\"--\", \"{prompt}\"] }]",
    );
    let with_default = argv("[{ when = \"model\", args = [\"-m={model}\", \"-p={prompt}\"] }]")
        + "[models]\ndefault = \"m\"\n";
    let never_resumed = argv("[{ when = \"fresh\", args = [\"-p={prompt}\"] }]");
    for text in [TEXT, &lines(), &by_model, &with_default, &never_resumed] {
        FileAdapter::load(text, "x.toml").expect(text);
    }
}

#[test]
fn broken_files_are_refused_with_the_right_words() {
    let (json, argv) = (lines(), file_with_argv);
    let no_stdin = |argv: &str| file_with_argv(argv).replace("stdin = \"{prompt}\"\n", "");
    let model = "argv = [{ when = \"model\", args = [\"-m\", \"{model}\"] }]";
    let cases = [
        (TEXT.replace("schema = 1", "schema = 2"), "schema: expected 1, got 2"),
        (TEXT.replace("schema = 1", ""), "schema: expected 1, got nothing"),
        (TEXT.replace("name =", "nmae ="), "top level: unknown key 'nmae'; known here: auth, binary, "),
        (TEXT.replace("name =", "nmae ="), "'name' is missing"),
        (
            TEXT.replace("format", "fromat"),
            "[output]: unknown key 'fromat'; known here: empty_ok, format, ok_exit",
        ),
        (
            TEXT.replace("{prompt}", "hello"),
            "the prompt goes nowhere: use {prompt} in argv or stdin, or {prompt.file}",
        ),
        (
            argv("[\"{prompt}\"]"),
            "[run] argv[0]: a positional {prompt} needs \"--\" before it, or the form \"--flag={prompt}\"",
        ),
        (
            argv("[{ when = \"model\", args = [\"-m\", \"{model}\", \"--\"] }, \"{prompt}\"]"),
            "[run] argv[1]: a positional {prompt} needs \"--\" before it",
        ),
        (
            no_stdin("[{ when = \"model\", args = [\"-m\", \"{model}\", \"--\", \"{prompt}\"] }]"),
            "the prompt goes nowhere when \"!model\": use {prompt} in argv or stdin, or {prompt.file}",
        ),
        (
            no_stdin(
                "[{ when = [\"fresh\", \"!tools\"], args = [\"-p={prompt}\"] }, { each = \"tools\", args = [\"{item}\", \"-p={prompt}\"] }, { when = \"resume\", args = [\"{resume}\"] }]",
            ) + "[probe]\nargs = []\n",
            "the prompt goes nowhere when \"!tools\", \"!fresh\": use",
        ),
        (
            no_stdin("[{ probe = \"-p\", args = [\"-p={prompt}\"] }]") + "[probe]\nargs = []\n",
            "the prompt goes nowhere: use",
        ),
        (argv("[\"-m\", \"{modle}\"]"), "[run] argv[1]: unknown placeholder {modle}"),
        (
            argv("[{ when = \"efort\", args = [\"-e\"] }]"),
            "[run] argv[0]: unknown condition 'efort'; known: append_system_prompt, continue, effort, ",
        ),
        (
            argv("[\"--tools\", \"{tools}\"]"),
            "[run] argv[1]: {tools} is a list: write {tools:csv}, {tools:json} or use each = \"tools\"",
        ),
        (argv("[\"{item}\"]"), "[run] argv[0]: {item} without 'each'"),
        (
            argv("[{ each = \"model\", args = [\"{item}\"] }]"),
            "[run] argv[0]: each = 'model' is not a list; lists: ",
        ),
        (argv("[\"{model:yaml}\"]"), "[run] argv[0]: unknown encoder 'yaml'; known: json, toml, csv"),
        (argv("[\"{model.dir}\"]"), "[run] argv[0]: '.dir' is not known; only '.file'"),
        (argv("[\"{file.cfg}\"]"), "[run] argv[0]: {file.cfg} names no [[file]]"),
        (argv("[\"{a b\"]"), "[run] argv[0]: lone brace in '{a b'; write {{ or }} for a brace"),
        (argv("[{ when = \"model\" }]"), "[run] argv[0]: 'args' is missing"),
        (
            argv("[{ when = \"model\", probe = \"-m\", args = [\"-m\", \"{model}\"] }]"),
            "[run] argv[0]: 'probe' needs a [probe] section",
        ),
        (
            TEXT.replace("argv = []", model) + "[fallback]\nmodel = \"drop\"\n",
            "[fallback] model: is carried by argv, env or a file already",
        ),
        (
            TEXT.to_owned() + "[fallback]\nimages = \"prefix\"\n",
            "[fallback] images: cannot be put into the prompt; use drop or refuse",
        ),
        (
            TEXT.to_owned() + "[fallback]\nimages = \"drpo\"\n",
            "[fallback] images: expected prefix, drop or refuse",
        ),
        (
            TEXT.to_owned() + "[[file]]\nname = \"a\"\npath = \"/etc/x\"\ntext = \"\"\n",
            "[[file]] a: path must begin with ~/ (leave it out for a temporary file)",
        ),
        (
            TEXT.to_owned() + "[[file]]\nname = \"a\"\npath = \"~/../x\"\ntext = \"\"\n",
            "[[file]] a: path must not leave the home directory",
        ),
        (TEXT.to_owned() + "[[file]]\nname = \"a\"\n", "[[file]] a: exactly one of text, json"),
        (
            TEXT.to_owned() + "[[file]]\nname = \"A\"\ntext = \"\"\n",
            "[[file]] A: name is lower-case letters and _",
        ),
        (
            TEXT.to_owned() + "[[file]]\nname = \"system_prompt.txt\"\ntext = \"\"\n",
            "[[file]] system_prompt: 'system_prompt.txt' is the name of {system_prompt.file}; choose another",
        ),
        (
            TEXT.to_owned() + "[[file]]\nname = \"json_schema.json\"\ntext = \"\"\n",
            "'json_schema.json' is the name of {json_schema.file}",
        ),
        (
            TEXT.to_owned() + "[[file]]\nname = \"prompt.txt\"\ntext = \"\"\n",
            "'prompt.txt' is the name of {prompt.file}",
        ),
        (
            TEXT.to_owned() + "ok_exit = [99999999999]\n",
            "[output] ok_exit[0]: no program ends with this code",
        ),
        (TEXT.to_owned() + "[env]\nA = true\n", "[env] A: only false removes a variable; a text sets it"),
        (TEXT.to_owned() + "[env]\nA = { when = \"root\" }\n", "[env] A: exactly one of value, json, from"),
        (
            TEXT.to_owned() + "[[class]]\nkind = \"boom\"\ntext = \"x\"\n",
            "[[class]] 1: unknown kind 'boom'; known: auth, permission, ",
        ),
        (
            TEXT.to_owned() + "[[class]]\nkind = \"auth\"\n",
            "[[class]] 1: needs one of status, code, text, exit, stderr",
        ),
        (
            TEXT.to_owned() + "[[class]]\nkind = \"auth\"\ntext = \"(\"\n",
            "[[class]] 1: bad regex '(': unclosed group",
        ),
        (
            TEXT.to_owned() + "[[class]]\nkind = \"auth\"\ntext = \"a(?=b)\"\n",
            "[[class]] 1: regex 'a(?=b)': look-around and back-references are not supported",
        ),
        (
            TEXT.to_owned() + "[[class]]\nkind = \"auth\"\ntext = '(a)\\1'\n",
            "[[class]] 1: regex '(a)\\1': look-around and back-references are not supported",
        ),
        (
            TEXT.to_owned() + "[[class]]\nkind = \"auth\"\ntext = '(?P<code>a)(?P=code)'\n",
            "look-around and back-references are not supported",
        ),
        (
            TEXT.to_owned() + "[errors]\nextract = [\"x\"]\n",
            "[errors] extract: 'x' has none of the groups status, code, message, json",
        ),
        (
            TEXT.to_owned() + "[errors]\nextract = [\"(?P<message>a)(?P<wait>b)\"]\n",
            "[errors] extract: unknown group 'wait'; known: status, code, message, json, retry_after",
        ),
        (
            TEXT.to_owned() + "[[stderr]]\nas = \"retry\"\nfind = \"in (?P<wait>\\\\d+) s\"\n",
            "[[stderr]] 1: unknown group 'wait'; known: message, status, retry_after",
        ),
        (
            TEXT.to_owned() + "[[stderr]]\nfind = \"x\"\n",
            "[[stderr]] 1: as is retry, notice, error or ignore",
        ),
        (TEXT.to_owned() + "[retry]\nabort_on = [\"boom\"]\n", "[retry]: unknown kind 'boom'"),
        (TEXT.to_owned() + "[stop]\nsignal = \"FOO\"\n", "[stop] signal: unknown signal 'FOO'"),
        (
            TEXT.to_owned() + "[stop]\ngrace = \"2 s\"\n",
            "[stop] grace: expected a duration like 500ms, 2s, 5m or 1h",
        ),
        (
            TEXT.to_owned() + "[prompt]\nguard = [{ find = 'a', put = '$1' }]\n",
            "[prompt] guard[0]: 'find' has no group 1",
        ),
        (
            TEXT.to_owned() + "[[event]]\nmatch = { \"/t\" = \"a\" }\n",
            "[output] format = \"text\": [[event]] rules are not used",
        ),
        (
            TEXT.replace("\"text\"", "\"jsonl\"").replace("[run]", "event = []\n[run]"),
            "[output] format = \"jsonl\": [[event]] rules are missing",
        ),
        (TEXT.replace("\"text\"", "\"jsonl\""), "[output] format = \"jsonl\": [[event]] rules are missing"),
        (
            TEXT.replace("\"text\"", "\"xml\""),
            "[output] format: expected text, json, jsonl or events, got 'xml'",
        ),
        (TEXT.replace("argv = []", "argv = 3"), "[run] argv: expected a list, got a number"),
        (
            json.replace("\"/m\"", "\"m\""),
            "[[event]] 1 message: 'm' is no pointer; it begins with '/', '@/' (the each item) or '=' (literal text)",
        ),
        (json.replace("\"/t\"", "\"=t\""), "[[event]] 1: '=t' is a literal text; here it must be a pointer"),
        (json.clone() + "error = { max = 2 }\n", "[[event]] 1 error: unknown key 'max'"),
        (json.clone() + "retry = { max = -2 }\n", "[[event]] 1 retry max: must not be negative"),
        (json.replace("\"/t\"", "\"@/t\""), "[[event]] 1: '@/t' needs 'each'"),
        (json.replace("\"/m\"", "\"@/m\""), "[[event]] 1 message: '@/m' needs 'each'"),
        (json.replace("\"a\" }", "{ is = 3 } }"), "[[event]] 1: only { absent = true } or { exists = true }"),
        (json.replace("\"a\" }", "\"~[\" }"), "[[event]] 1: bad regex '['"),
        (json.clone() + "usage = \"/u\"\n", "a rule has 'usage' but there is no [usage] section"),
        (json.clone() + "finish = \"/u\"\n", "a rule has 'finish' but there is no [finish] section"),
        (json.clone() + "done = \"yes\"\n", "[[event]] 1: done is ok, error or auto"),
        (json.clone() + "when = \"root\"\n", "[[event]] 1: 'root' is a condition for starting"),
        (json.clone() + "tool = { nmae = \"/n\" }\n", "[[event]] 1 tool: unknown key 'nmae'"),
        (json.clone() + "error = { kind = \"boom\" }\n", "[[event]] 1 error: unknown kind 'boom'"),
        (
            json.clone() + "[[event]]\nmatch = { \"/t\" = \"a\" }\nnotice = \"/n\"\n",
            "[[event]] 2: can never fire, rule 1 has the same match",
        ),
        (
            json.replace("match = { \"/t\" = \"a\" }\n", "") + "[[event]]\nnotice = \"/n\"\n",
            "[[event]] 2: can never fire, rule 1",
        ),
        (json.clone() + "[[event]]\n", "[[event]] 2: neither match nor action"),
        (
            json.replace("argv = []", "argv = [{ when = \"resume\", args = [\"-r\", \"{resume}\"] }]"),
            "{resume} is used but no rule reports a session",
        ),
        (
            json.replace("argv = []", "argv = [{ when = \"continue\", args = [\"-c\"] }]")
                + "session = \"/s\"\n",
            "'continue' is only for agents that report no session id; this one does (the gateway remembers it)",
        ),
        (TEXT.replace("argv = []", "argv = [\"a\" \"b\"]"), "expected"),
    ];
    let unsaid = cases.iter().filter(|(text, words)| !errors(text).to_string().contains(words));
    let unsaid: Vec<String> =
        unsaid.map(|(text, words)| format!("{words}\n    but {}", errors(text))).collect();
    assert!(unsaid.is_empty(), "not said:\n{}", unsaid.join("\n"));
}

#[test]
fn all_errors_come_at_once_each_with_line_and_column() {
    let text = "schema = 1\nname = \"x\"\n[run]\nargv = [\n  \"é{modle}\", { when = \"efort\", args = [\"{no}\"] },\n]\n\
                stdin = \"{prompt}\"\nstdni = 1\n[output]\nformat = \"text\"\nok_exit = [\"0\"]\n";
    let found: Vec<String> = errors(text).to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        found.iter().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(": ")).collect::<Vec<_>>(),
        [
            "x.toml:5:3: [run] argv[0]",
            "x.toml:5:24: [run] argv[1]",
            "x.toml:5:41: [run] argv[1]",
            "x.toml:8:1: [run]",
            "x.toml:11:12: [output] ok_exit[0]",
        ]
    );
}

#[test]
fn a_schema_that_is_not_known_is_told_where_it_stands() {
    let found = errors(&format!("# one\n# two\n\n{}", TEXT.replace("schema = 1", "schema = 2")));
    assert_eq!((found.errors[0].line, found.errors[0].column), (4, 10), "{found}");
}

#[test]
fn a_file_that_is_no_toml_says_where() {
    let found = errors("schema = 1\nname = \n");
    assert_eq!((found.errors[0].line, found.errors.len()), (2, 1), "{found}");
}
