// The common headers are compiled with it.
