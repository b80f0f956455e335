//! Areas over time on top of each other, with their legend: what they show (`model`), how
//! that is drawn (`draw`) and said in numbers (`legend`, `csv`). Pure; `page::chart` puts
//! one into the document. Owns no choice of what is shown.

pub mod csv;
pub mod draw;
pub mod legend;
pub mod model;
