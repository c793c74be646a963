//! Programs that show the crates at work; see the files beside this one.
