package stdin

// fionread asks how many bytes can be read from a pipe, a socket or a terminal
// (FIONREAD of sys/filio.h, which package unix leaves out).
const fionread = 0x4004667f
