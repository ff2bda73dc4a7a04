/* An image that the loader must refuse: code of it would run while it is loaded. */
static int ready;
__attribute__((constructor)) static void prepare(void) { ready = 1; }
__attribute__((visibility("default"))) int is_ready(void) { return ready; }
