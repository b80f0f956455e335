//! Tables of names: a kind of thing, and for each its stable name, often with a label and a sentence
//! of explanation. Words that readers of another version may not know are in [`crate::words`].

/// Defines an enum by rows of its variants: the name for machines; the label and the help where it has
/// them. Rustfmt leaves what is in braces as it is.
#[macro_export]
macro_rules! named {
    ($(#[$text:meta])* $name:ident: $($variant:ident $slug:literal $label:literal $help:literal;)*) => {
        $crate::named! { $(#[$text])* $name: $(#[doc = $help] $variant $slug;)* }

        impl $name {
            /// Name for people.
            pub const fn label(self) -> &'static str {
                match self { $($name::$variant => $label,)* }
            }

            /// One sentence of explanation.
            pub const fn help(self) -> &'static str {
                match self { $($name::$variant => $help,)* }
            }
        }
    };
    ($(#[$text:meta])* $name:ident: $($(#[$about:meta])* $variant:ident $slug:literal;)*) => {
        $(#[$text])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$about])* $variant,)*
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: [$name; [$($name::$variant),*].len()] = [$($name::$variant),*];

            /// Stable name for machines.
            pub const fn slug(self) -> &'static str {
                match self { $($name::$variant => $slug,)* }
            }
        }
    };
}
