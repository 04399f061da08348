//! Whatever body a client sends: the prompt of a conversation begins with that of the conversation before.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let prompts = aicodebox::fuzzing::chat_prompts(body);
    for turns in prompts.windows(2) {
        assert!(turns[1].starts_with(&turns[0]), "{:?} {:?}", turns[0], turns[1]);
    }
});
