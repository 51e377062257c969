// Settings of ThreadSanitizer for programs whose ranks are threads of one process.

/// A rank looks at all descriptors of its process: here, at those that other ranks open and close.
/// A word of an ArrivalReport may change while it is on its way, as its header says; networks read
/// it whole, and memcpy() stands for them here.
extern "C" __attribute__((visibility("default"))) const char* __tsan_default_suppressions() {
  return "race:tnt::comm::open_sockets\n"
         "race:tnt::comm::ArrivalReport::answer_if_waiting\n";
}
