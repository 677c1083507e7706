//! Counters, histograms, the access log.
