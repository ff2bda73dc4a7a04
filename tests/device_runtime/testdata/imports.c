/* An image that the loader must refuse: it imports a function. */
extern int elsewhere(void);
__attribute__((visibility("default"))) int call_elsewhere(void) { return elsewhere(); }
