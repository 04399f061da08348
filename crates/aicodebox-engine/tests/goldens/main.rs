//! Golden tests of the adapter format: output of real agents and hand-made output with what must be read in it,
//! requests with the command lines they must become, broken files with what must be said of them.

mod bounds;
mod broken;
mod capabilities;
mod captures;
mod cases;
mod launches;
mod made;
mod mutants;
mod pieces;
mod plans;
mod probes;
mod refusals;
mod sequences;
mod streams;
