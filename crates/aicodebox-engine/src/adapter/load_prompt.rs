use super::{
    condition::{Condition, Term},
    contract::Capability,
    field::Field,
    group::{Group, Shape, uses_prompt},
    node::Table,
    spec::{Content, Spec, Variable},
};

/// Notes an error unless every request that the file takes brings its prompt to the agent.
pub(super) fn check(top: &Table<'_>, spec: &Spec) {
    let ways = ways(spec);
    let use_it = "use {prompt} in argv or stdin, or {prompt.file}";
    if ways.is_empty() {
        top.bare_error(format!("the prompt goes nowhere: {use_it}"));
    } else if let Some(set) = sets(spec, &ways).find(|set| !ways.iter().any(|way| way.holds(*set))) {
        let told = Term::all().filter(|(_, term)| ways.iter().any(|way| way.mentions(*term)));
        let word = |(name, term): (&str, Term)| {
            let not = if set & term.bit() == 0 { "!" } else { "" };
            format!("\"{not}{name}\"")
        };
        let when: Vec<String> = told.map(word).collect();
        top.bare_error(format!("the prompt goes nowhere when {}: {use_it}", when.join(", ")));
    }
}

/// The conditions under which something carries the prompt.
fn ways(spec: &Spec) -> Vec<Condition> {
    let mut ways = Vec::new();
    if spec.stdin.as_ref().is_some_and(uses_prompt) {
        ways.push(Condition::default());
    }
    for group in spec.argv.iter().filter(|group| uses_prompt(&group.body)) {
        ways.extend(way(group));
    }
    for (_, variable) in &spec.env {
        match variable {
            Variable::Text { when, text } if uses_prompt(text) => ways.push(*when),
            Variable::Json { when, parts } => ways.extend(parts_with_prompt(parts).map(|way| way.and(*when))),
            Variable::Text { .. } | Variable::Remove | Variable::Alias { .. } => {}
        }
    }
    for file in &spec.files {
        match &file.content {
            Content::Text(text) if uses_prompt(text) => ways.push(file.when),
            Content::Text(_) => {}
            Content::Json(parts) => ways.extend(parts_with_prompt(parts).map(|way| way.and(file.when))),
        }
    }
    ways
}

fn parts_with_prompt(parts: &[Group<Shape>]) -> impl Iterator<Item = Condition> {
    parts.iter().filter(|part| uses_prompt(&part.body)).filter_map(way)
}

/// When a group is there; `None` = that depends on the program.
fn way<T>(group: &Group<T>) -> Option<Condition> {
    let given = group.each.map(Condition::given).unwrap_or_default();
    group.probe.is_none().then(|| group.when.and(given))
}

/// What may hold of a request, as far as `ways` ask for it.
fn sets(spec: &Spec, ways: &[Condition]) -> impl Iterator<Item = u32> {
    let terms = Term::all().map(|(_, term)| term);
    let asked: Vec<u32> =
        terms.filter(|term| ways.iter().any(|way| way.mentions(*term))).map(Term::bit).collect();
    let resumes = match spec.capability(Field::Resume) {
        Capability::Flag | Capability::Env | Capability::File => true,
        Capability::Prefix | Capability::Drop | Capability::Refuse => false,
    };
    let (model, tools, no_tools) = (Field::Model.bit(), Field::Tools.bit(), Field::NoTools.bit());
    let (fresh, resume) = (Term::Fresh.bit(), Field::Resume.bit());
    let mut sessions = vec![fresh];
    if resumes {
        sessions.push(resume | Term::Keep.bit());
    }
    if spec.continues() {
        sessions.push(Term::Continue.bit());
    }
    let of_session = fresh | resume | Term::Continue.bit();
    let default_model = if spec.models.default.is_some() { model } else { 0 };
    (0..1_u32 << asked.len()).flat_map(move |choice| {
        let chosen = asked.iter().enumerate().filter(|(index, _)| choice & 1 << index != 0);
        let set = chosen.fold(default_model, |set, (_, bit)| set | bit);
        let possible = set & of_session == 0 && set & (tools | no_tools) != tools | no_tools;
        let sets = sessions.iter().filter(|_| possible).map(|session| set | session);
        sets.collect::<Vec<_>>()
    })
}
