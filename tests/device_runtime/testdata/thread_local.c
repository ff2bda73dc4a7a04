/* An image that the loader must refuse: it has thread-local storage. */
__attribute__((visibility("default"))) __thread int counter = 1;
__attribute__((visibility("default"))) int count(void) { return counter; }
