#pragma once

/// Marks what `libtnt_comm.so` exports. Everything else is built with hidden
/// visibility: only the C interface and the facade the bindings use leave the
/// library.
#define TNT_COMM_EXPORT __attribute__((visibility("default")))
