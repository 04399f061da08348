use crate::cases::builtins;

const FIELDS: [&str; 9] = [
    "model",
    "effort",
    "system_prompt",
    "append_system_prompt",
    "json_schema",
    "tools",
    "no_tools",
    "resume",
    "images",
];

#[test]
fn what_users_see_is_derived_from_what_a_file_does() {
    let table = [
        ("codex", "flag flag flag flag flag refuse flag flag flag", false, true),
        ("claude", "flag flag flag flag flag flag flag flag refuse", true, true),
        ("pi", "flag flag flag flag prefix flag flag flag flag", true, true),
        ("gemini", "flag drop env prefix prefix refuse flag flag refuse", true, true),
        ("opencode", "flag flag env prefix prefix env flag flag flag", false, true),
        ("demo", "flag drop prefix prefix prefix drop drop refuse refuse", true, false),
        ("text", "refuse refuse prefix prefix prefix refuse refuse refuse refuse", true, false),
    ];
    let adapters = builtins();
    for (name, fields, streaming, usage) in table {
        use aicodebox_engine::adapter::Adapter;
        let info = adapters[name].info();
        let capabilities = &info.capabilities;
        let found = FIELDS.map(|field| capabilities.fields[field].name()).join(" ");
        assert_eq!(found, fields, "{name}");
        assert_eq!((capabilities.streaming, capabilities.usage), (streaming, usage), "{name}");
        let agent = !["demo", "text"].contains(&name);
        assert_eq!(
            (capabilities.sessions, capabilities.tool_events, info.has_sessions),
            (agent, agent, agent),
            "{name}"
        );
        assert_eq!(capabilities.structured, name == "claude", "{name}");
    }
}
