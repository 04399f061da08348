use super::{field::Field, node::Node};

/// A name that may stand in `when`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Term {
    Field(Field),
    Stream,
    Fresh,
    Keep,
    Continue,
    Root,
    Subscription,
}

impl Term {
    const OTHERS: [(&'static str, Self); 6] = [
        ("stream", Self::Stream),
        ("fresh", Self::Fresh),
        ("keep", Self::Keep),
        ("continue", Self::Continue),
        ("root", Self::Root),
        ("subscription", Self::Subscription),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::all().find(|(known, _)| *known == name).map(|(_, term)| term)
    }

    /// All, with their names.
    pub(super) fn all() -> impl Iterator<Item = (&'static str, Self)> {
        let fields = Field::ALL.into_iter().map(|field| (field.name(), Self::Field(field)));
        fields.chain(Self::OTHERS)
    }

    fn names() -> String {
        let mut names: Vec<&str> = Self::all().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.join(", ")
    }

    /// Its bit in a set of terms that hold.
    pub(super) fn bit(self) -> u32 {
        match self {
            Self::Field(field) => field.bit(),
            Self::Stream => 1 << 16,
            Self::Fresh => 1 << 17,
            Self::Keep => 1 << 18,
            Self::Continue => 1 << 19,
            Self::Root => 1 << 20,
            Self::Subscription => 1 << 21,
        }
    }
}

/// `when`: all of these hold, and none of those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Condition {
    need: u32,
    refuse: u32,
}

impl Condition {
    pub(super) fn parse(node: &Node<'_>) -> Self {
        let mut condition = Self::default();
        let place = node.place.strip_suffix(" when").unwrap_or(&node.place);
        let nodes = if node.is_list() { node.list().unwrap_or_default() } else { vec![node.clone()] };
        for node in nodes {
            let Some(word) = node.text() else { continue };
            let name = word.trim_start_matches('!');
            match Term::from_name(name) {
                Some(term) if word.starts_with('!') => condition.refuse |= term.bit(),
                Some(term) => condition.need |= term.bit(),
                None => node
                    .clone()
                    .called(place)
                    .error(format_args!("unknown condition '{name}'; known: {}", Term::names())),
            }
        }
        condition
    }

    /// Whether it holds where exactly the terms of `set` hold.
    pub(super) fn holds(self, set: u32) -> bool {
        set & self.need == self.need && set & self.refuse == 0
    }

    /// Holds where both do.
    pub(super) fn and(self, other: Self) -> Self {
        Self { need: self.need | other.need, refuse: self.refuse | other.refuse }
    }

    /// Holds where that field is given.
    pub(super) fn given(field: Field) -> Self {
        Self { need: field.bit(), refuse: 0 }
    }

    /// Whether it speaks of that term at all.
    pub(super) fn mentions(self, term: Term) -> bool {
        (self.need | self.refuse) & term.bit() != 0
    }
}
