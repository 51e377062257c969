// Settings of ThreadSanitizer for programs whose ranks are threads of one process.

/// A rank looks at all descriptors of its process: here, at those that other ranks open and close.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:tnt::comm::open_sockets\n";
}
