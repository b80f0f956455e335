//! The list of exported families: those of the features, then netto's own.

use crate::about;
use crate::catalogue::{Catalogue, Family};

/// The exported families of the features and of netto itself, in the order of a page.
pub fn families(
    catalogues: &[Catalogue],
    has_compat: bool,
) -> impl Iterator<Item = &'static Family> {
    let of_feature = move |catalogue: &Catalogue| {
        let compat = catalogue.compat.iter().filter(move |_| has_compat);
        catalogue.families.iter().chain(compat)
    };
    catalogues.iter().flat_map(of_feature).chain(about::METRICS)
}
