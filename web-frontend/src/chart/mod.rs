//! Stacked areas over time, with their legend: content (`model`), drawing (`draw`), and numbers
//! (`legend`, `csv`). Pure; `page::chart` inserts a chart into the document. The caller chooses the
//! content.

pub mod csv;
pub mod draw;
pub mod legend;
pub mod model;
