//! Baselines for the benchmarks beside this file.
