//! A Bot API server for tests. It refuses what Telegram refuses (see `rules`), and has a side channel: updates and faults
//! go in, everything that the bot did comes out.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    http::{Connection, Request, Upload},
    rules,
};
use crate::harness::LIMIT;

/// In the shape of a real one, which no log and no error may show.
pub(crate) const TOKEN: &str = "424242:AAsecretSECRETsecretSECRETsecretSECRET1";
pub(crate) const BOT_NAME: &str = "box_bot";

#[derive(Clone)]
pub(crate) struct FakeTelegram {
    pub(crate) address: SocketAddr,
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
pub(crate) struct State {
    updates: BTreeMap<u32, Value>,
    next_update: u32,
    /// How many polls have begun: a newer one ends an older one.
    polls: u64,
    next_message: i32,
    /// Messages of the bot, in the order in which they were sent.
    pub(crate) sent: Vec<Sent>,
    /// All calls but getUpdates.
    pub(crate) calls: Vec<Call>,
    faults: Vec<(String, Fault)>,
    files: HashMap<String, Vec<u8>>,
    known: HashSet<(i64, i32)>,
    topics: HashSet<(i64, i64)>,
    blocked: HashSet<i64>,
    migrated: HashMap<i64, i64>,
    revoked: bool,
    /// Rules of pace that were broken.
    pub(crate) floods: Vec<String>,
}

/// What goes wrong with the next call of a method.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// An error of Telegram, with the parameters that come with it.
    Answer(u16, &'static str, Value),
    /// The connection breaks without an answer.
    Reset,
    /// No answer ever comes.
    Silence,
}

/// A call, as the side channel shows it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) params: Value,
    /// The error, when it was refused.
    pub(crate) error: Option<String>,
    pub(crate) at: Instant,
}

/// A message of the bot as people see it.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) chat: i64,
    pub(crate) id: i32,
    pub(crate) topic: Option<i64>,
    pub(crate) reply_to: Option<i64>,
    /// Text or caption.
    pub(crate) text: String,
    pub(crate) entities: Vec<Value>,
    /// `text`, `photo`, `video`, `document`.
    pub(crate) kind: &'static str,
    pub(crate) file: Option<Upload>,
    pub(crate) buttons: Vec<(String, String)>,
    /// What it said before, oldest first.
    pub(crate) edits: Vec<String>,
    pub(crate) deleted: bool,
    pub(crate) at: Instant,
}

/// An answer: a result, or status, description and parameters.
type Answer = Result<Value, (u16, String, Value)>;

fn refuse(description: impl Into<String>) -> (u16, String, Value) {
    (400, format!("Bad Request: {}", description.into()), Value::Null)
}

impl FakeTelegram {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = State { next_update: 1000, next_message: 100, ..State::default() };
        let fake = Self {
            address: listener.local_addr().unwrap(),
            shared: Arc::new((Mutex::new(state), Condvar::new())),
        };
        let serving = fake.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let fake = serving.clone();
                thread::spawn(move || fake.serve(stream));
            }
        });
        fake
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap()
    }

    /// Waits until the state has what is looked for.
    pub(crate) fn wait<T>(&self, what: &str, mut look: impl FnMut(&State) -> Option<T>) -> T {
        let end = Instant::now() + LIMIT * 2;
        let mut state = self.state();
        loop {
            if let Some(found) = look(&state) {
                return found;
            }
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "it never happened that {what}; sent: {:#?}", state.sent);
            state = self.shared.1.wait_timeout(state, left).unwrap().0;
        }
    }

    /// Waits for a message that says this, and gives it.
    pub(crate) fn said(&self, chat: i64, text: &str) -> Sent {
        self.wait(&format!("the bot says {text:?} in {chat}"), |state| {
            let mut shown = state.sent.iter().filter(|sent| sent.chat == chat && !sent.deleted);
            shown.find(|sent| sent.text.contains(text)).cloned()
        })
    }

    /// Everything that people in a chat see now.
    pub(crate) fn shown(&self, chat: i64) -> Vec<Sent> {
        self.state().sent.iter().filter(|sent| sent.chat == chat && !sent.deleted).cloned().collect()
    }

    /// A new update; gives its number.
    pub(crate) fn push(&self, update: Value) -> u32 {
        let mut state = self.state();
        state.next_update += 1;
        let id = state.next_update;
        state.push(id, update);
        self.shared.1.notify_all();
        id
    }

    /// An update with a number of its own choice.
    pub(crate) fn push_as(&self, id: u32, update: Value) {
        let mut state = self.state();
        state.next_update = state.next_update.max(id);
        state.push(id, update);
        self.shared.1.notify_all();
    }

    /// Somebody (user 7) writes a text in a chat; gives the message's number.
    pub(crate) fn writes(&self, chat: i64, text: &str) -> i32 {
        self.message(chat, json!({ "text": text }))
    }

    /// Somebody sends a message with these parts beside the usual ones.
    pub(crate) fn message(&self, chat: i64, parts: Value) -> i32 {
        let id = self.next_message();
        self.push(json!({ "message": message(chat, id, parts) }));
        id
    }

    pub(crate) fn next_message(&self) -> i32 {
        let mut state = self.state();
        state.next_message += 1;
        state.next_message
    }

    /// Somebody presses a button of a message.
    pub(crate) fn presses(&self, sent: &Sent, user: i64, data: &str) {
        let from = json!({ "id": user, "is_bot": false, "first_name": "U" });
        let carrier =
            message(sent.chat, sent.id, json!({ "text": sent.text, "message_thread_id": sent.topic }));
        self.push(json!({ "callback_query": {
            "id": "1", "from": from, "message": carrier, "chat_instance": "1", "data": data,
        }}));
    }

    /// A file that Telegram holds.
    pub(crate) fn file(&self, id: &str, bytes: Vec<u8>) {
        self.state().files.insert(id.to_owned(), bytes);
    }

    /// Waits until all faults of this method have been met.
    pub(crate) fn met(&self, method: &str) {
        let method = method.to_ascii_lowercase();
        self.wait("the fault is met", |state| {
            (!state.faults.iter().any(|(of, _)| *of == method)).then_some(())
        });
    }

    /// The next `times` calls of the method go wrong.
    pub(crate) fn fault(&self, method: &str, fault: &Fault, times: usize) {
        let mut state = self.state();
        state.faults.extend(std::iter::repeat_n((method.to_ascii_lowercase(), fault.clone()), times));
        // A poll that waits meets it at once.
        state.polls += 1;
        self.shared.1.notify_all();
    }

    pub(crate) fn block(&self, chat: i64) {
        self.state().blocked.insert(chat);
    }

    pub(crate) fn migrate(&self, from: i64, to: i64) {
        self.state().migrated.insert(from, to);
    }

    pub(crate) fn revoke(&self) {
        self.state().revoked = true;
        self.state().polls += 1;
        self.shared.1.notify_all();
    }

    fn serve(&self, stream: TcpStream) {
        let breaking = stream.try_clone().unwrap();
        let mut connection = Connection::new(stream);
        while let Some(request) = connection.request() {
            let mut segments = request.path.trim_start_matches('/').splitn(2, '/');
            let first = segments.next().unwrap_or_default().to_owned();
            let rest = segments.next().unwrap_or_default().to_owned();
            if first == "file" {
                let path = rest.split_once('/').map_or("", |(_, path)| path);
                match self.state().files.get(path) {
                    Some(bytes) => connection.answer(200, &bytes.clone()),
                    None => connection.answer(404, b"{}"),
                }
                continue;
            }
            let method = rest.to_ascii_lowercase();
            let fault = {
                let mut state = self.state();
                let found = state.faults.iter().position(|(of, _)| *of == method);
                found.map(|index| state.faults.remove(index).1)
            };
            self.shared.1.notify_all();
            let answer = match fault {
                Some(Fault::Reset) => {
                    breaking.shutdown(Shutdown::Both).unwrap();
                    return;
                }
                Some(Fault::Silence) => continue,
                Some(Fault::Answer(status, description, parameters)) => {
                    Err((status, description.to_owned(), parameters))
                }
                None if first != format!("bot{TOKEN}") || self.state().revoked => {
                    Err((401, "Unauthorized".to_owned(), Value::Null))
                }
                None if method == "getupdates" => self.poll(&request.params),
                None => self.state().call(&method, &request),
            };
            if method != "getupdates" {
                let error = answer.as_ref().err().map(|(_, description, _)| description.clone());
                let call = Call { method, params: request.params, error, at: Instant::now() };
                self.state().calls.push(call);
            }
            let (status, body) = match answer {
                Ok(result) => (200, json!({ "ok": true, "result": result })),
                Err((status, description, parameters)) => {
                    let mut body = json!({ "ok": false, "error_code": status, "description": description });
                    if !parameters.is_null() {
                        body["parameters"] = parameters;
                    }
                    (status, body)
                }
            };
            self.shared.1.notify_all();
            connection.answer(status, body.to_string().as_bytes());
        }
    }

    /// A long poll: an offset confirms what is before it, and a second poller ends the first.
    fn poll(&self, params: &Value) -> Answer {
        let conflict = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running";
        let end = Instant::now() + Duration::from_secs(params["timeout"].as_u64().unwrap_or(0));
        let mut state = self.state();
        state.polls += 1;
        let own = state.polls;
        if let Some(offset) = params["offset"].as_u64() {
            state.updates = state.updates.split_off(&u32::try_from(offset).unwrap());
        }
        self.shared.1.notify_all();
        loop {
            if state.polls != own {
                if let Some((_, Fault::Answer(status, text, parameters))) =
                    state.faults.iter().find(|(of, _)| of == "getupdates").cloned()
                {
                    return Err((status, text.to_owned(), parameters));
                }
                let (status, text) = if state.revoked { (401, "Unauthorized") } else { (409, conflict) };
                return Err((status, text.to_owned(), Value::Null));
            }
            let left = end.saturating_duration_since(Instant::now());
            if !state.updates.is_empty() || left.is_zero() {
                let updates = state.updates.iter().take(100).map(|(id, update)| {
                    let mut update = update.clone();
                    update["update_id"] = json!(id);
                    // teloxide reads the first field that it does not know as the kind.
                    update
                });
                return Ok(updates.collect());
            }
            state = self.shared.1.wait_timeout(state, left).unwrap().0;
        }
    }
}

impl State {
    fn push(&mut self, id: u32, update: Value) {
        for part in update.as_object().unwrap().values() {
            let message = if part["message"].is_object() { &part["message"] } else { part };
            if let (Some(chat), Some(id)) = (message["chat"]["id"].as_i64(), message["message_id"].as_i64()) {
                self.known.insert((chat, i32::try_from(id).unwrap()));
                if let Some(topic) = message["message_thread_id"].as_i64() {
                    self.topics.insert((chat, topic));
                }
            }
        }
        self.updates.insert(id, update);
    }

    fn call(&mut self, method: &str, request: &Request) -> Answer {
        let params = &request.params;
        match method {
            "getme" => Ok(json!({
                "id": 424242, "is_bot": true, "first_name": "Box", "username": BOT_NAME, "can_join_groups": true,
                "can_read_all_group_messages": false, "supports_inline_queries": false,
                "can_connect_to_business": false, "has_main_web_app": false,
            })),
            "deletewebhook" | "answercallbackquery" => Ok(json!(true)),
            "setmycommands" => self.commands(params),
            "sendchataction" => self.reachable(params).map(|_| json!(true)),
            "sendmessage" => self.send("text", request),
            "sendphoto" => self.send("photo", request),
            "sendvideo" => self.send("video", request),
            "senddocument" => self.send("document", request),
            "editmessagetext" => self.edit(params),
            "deletemessage" => self.find(params, "message to delete not found").map(|sent| {
                sent.deleted = true;
                json!(true)
            }),
            "getfile" => {
                let id = params["file_id"].as_str().unwrap_or_default();
                let bytes = self.files.get(id).ok_or_else(|| refuse("invalid file_id"))?;
                if bytes.len() > 20 << 20 {
                    return Err(refuse("file is too big"));
                }
                Ok(json!({ "file_id": id, "file_unique_id": id, "file_size": bytes.len(), "file_path": id }))
            }
            _ => Err((404, "Not Found".into(), Value::Null)),
        }
    }

    fn commands(&self, params: &Value) -> Answer {
        let commands = params["commands"].as_array().cloned().unwrap_or_default();
        let well = |command: &Value| {
            let name = command["command"].as_str().unwrap_or_default();
            let about = command["description"].as_str().unwrap_or_default();
            (1..=32).contains(&name.len())
                && name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_')
                && (1..=256).contains(&about.chars().count())
        };
        if commands.is_empty() || !commands.iter().all(well) {
            return Err(refuse("BOT_COMMAND_INVALID"));
        }
        Ok(json!(true))
    }

    /// The chat, when messages can go there.
    fn reachable(&self, params: &Value) -> Result<i64, (u16, String, Value)> {
        let chat = params["chat_id"].as_i64().ok_or_else(|| refuse("chat_id is empty"))?;
        if let Some(to) = self.migrated.get(&chat) {
            let text = "Bad Request: group chat was upgraded to a supergroup chat";
            return Err((400, text.into(), json!({ "migrate_to_chat_id": to })));
        }
        if self.blocked.contains(&chat) {
            return Err((403, "Forbidden: bot was blocked by the user".into(), Value::Null));
        }
        Ok(chat)
    }

    fn send(&mut self, kind: &'static str, request: &Request) -> Answer {
        let params = &request.params;
        let chat = self.reachable(params)?;
        let (text, entities, limit) =
            if kind == "text" { ("text", "entities", 4096) } else { ("caption", "caption_entities", 1024) };
        let shown = rules::accept(params, text, entities, limit, kind != "text").map_err(refuse)?;
        let file = match params[kind].as_str() {
            Some(reference) if kind != "text" => {
                let name = reference.strip_prefix("attach://").unwrap_or_default();
                let file = request
                    .files
                    .get(name)
                    .cloned()
                    .ok_or_else(|| refuse("there is no file in the request"))?;
                if file.bytes.len() > 50 << 20 {
                    return Err((413, "Request Entity Too Large".into(), Value::Null));
                }
                if file.bytes.is_empty() || (kind == "photo" && file.bytes.len() > 10 << 20) {
                    return Err(refuse("wrong file"));
                }
                Some(file)
            }
            _ => None,
        };
        let topic = params["message_thread_id"].as_i64();
        if topic.is_some_and(|topic| !self.topics.contains(&(chat, topic))) {
            return Err(refuse("message thread not found"));
        }
        let reply = &params["reply_parameters"];
        let reply_to = reply["message_id"].as_i64();
        let answered = reply_to.is_some_and(|id| self.known.contains(&(chat, i32::try_from(id).unwrap())));
        if reply_to.is_some() && !answered && reply["allow_sending_without_reply"] != true {
            return Err(refuse("message to be replied not found"));
        }
        let buttons = buttons(&params["reply_markup"])?;
        self.pace(chat);
        self.next_message += 1;
        let id = self.next_message;
        self.known.insert((chat, id));
        let sent = Sent {
            chat,
            id,
            topic,
            reply_to,
            text: shown.text,
            entities: shown.entities,
            kind,
            file,
            buttons,
            edits: Vec::new(),
            deleted: false,
            at: Instant::now(),
        };
        let answer = sent.message();
        self.sent.push(sent);
        Ok(answer)
    }

    /// About 30 messages a second overall, 20 a minute in a group, a few at once to a person.
    fn pace(&mut self, chat: i64) {
        let count = |within: u64, of: Option<i64>| {
            let recent =
                self.sent.iter().rev().take_while(|sent| sent.at.elapsed() < Duration::from_secs(within));
            recent.filter(|sent| of.is_none_or(|of| of == sent.chat)).count()
        };
        let (all, here, minute) = (count(1, None), count(1, Some(chat)), count(60, Some(chat)));
        if all >= 30 || here >= 5 || (chat < 0 && minute >= 20) {
            self.floods.push(format!("{all} a second, {here} of them in {chat}, {minute} a minute there"));
        }
    }

    fn edit(&mut self, params: &Value) -> Answer {
        self.reachable(params)?;
        let shown = rules::accept(params, "text", "entities", 4096, false).map_err(refuse)?;
        let buttons = buttons(&params["reply_markup"])?;
        let sent = self.find(params, "message to edit not found")?;
        if sent.text == shown.text && sent.entities == shown.entities && sent.buttons == buttons {
            return Err(refuse(
                "message is not modified: specified new message content and reply markup are exactly the same as a current content and reply markup of the message",
            ));
        }
        sent.edits.push(std::mem::replace(&mut sent.text, shown.text));
        sent.entities = shown.entities;
        sent.buttons = buttons;
        Ok(sent.message())
    }

    fn find(&mut self, params: &Value, missing: &str) -> Result<&mut Sent, (u16, String, Value)> {
        let (chat, id) = (params["chat_id"].as_i64(), params["message_id"].as_i64());
        let mut sent = self.sent.iter_mut();
        sent.find(|sent| Some(sent.chat) == chat && Some(i64::from(sent.id)) == id && !sent.deleted)
            .ok_or_else(|| refuse(missing))
    }
}

impl Sent {
    fn message(&self) -> Value {
        let mut parts = json!({ "message_thread_id": self.topic });
        let file =
            json!({ "file_id": "out", "file_unique_id": "out", "width": 1, "height": 1, "duration": 1 });
        match self.kind {
            "text" => parts["text"] = json!(self.text),
            "photo" => parts["photo"] = json!([file]),
            kind => parts[kind] = file,
        }
        message(self.chat, self.id, parts)
    }
}

/// A message in the words of Telegram.
pub(crate) fn message(chat: i64, id: i32, parts: Value) -> Value {
    let place = if chat < 0 {
        json!({ "id": chat, "type": "supergroup", "title": "Group", "is_forum": false })
    } else {
        json!({ "id": chat, "type": "private", "first_name": "U" })
    };
    let mut message = json!({
        "message_id": id, "date": 1_790_000_000, "chat": place,
        "from": { "id": 7, "is_bot": false, "first_name": "U" },
    });
    for (name, value) in parts.as_object().unwrap() {
        if !value.is_null() {
            message[name] = value.clone();
        }
    }
    message
}

fn buttons(markup: &Value) -> Result<Vec<(String, String)>, (u16, String, Value)> {
    let rows = markup["inline_keyboard"].as_array().cloned().unwrap_or_default();
    let all = rows.iter().filter_map(Value::as_array).flatten();
    let buttons: Vec<_> = all
        .map(|button| {
            let text = |name: &str| button[name].as_str().unwrap_or_default().to_owned();
            (text("text"), text("callback_data"))
        })
        .collect();
    if buttons.len() > 100 {
        return Err(refuse("reply markup is too long"));
    }
    if buttons.iter().any(|(text, data)| text.is_empty() || data.is_empty() || data.len() > 64) {
        return Err(refuse("BUTTON_DATA_INVALID"));
    }
    Ok(buttons)
}
