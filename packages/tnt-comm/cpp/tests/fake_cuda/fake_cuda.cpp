#include "fake_cuda/fake_cuda.hpp"

#include "fake_cuda/driver.hpp"
#include "fake_cuda/streams.hpp"
#include "tnt/comm/base/error.hpp"

namespace tnt::comm::tests {

FakeCuda::FakeCuda(const FakeCudaSettings& settings)
    : driver_{.functions = fake_cuda::driver_functions(),
              .release_limit_s = settings.release_limit_s} {
  fake_cuda::reset_driver();
  fake_cuda::apply_number_of_devices(settings.num_devices);
  for (std::size_t from = 0; from < settings.can_reach.size(); ++from) {
    unsigned reachable = 0;
    for (std::size_t to = 0; to < settings.can_reach[from].size(); ++to) {
      if (settings.can_reach[from][to]) reachable |= 1U << to;
    }
    fake_cuda::apply_reach(static_cast<int>(from), reachable);
  }
  fake_cuda::apply_version(settings.version);
  fake_cuda::apply_seed(settings.seed);
  fake_cuda::course().longest_delay_us = settings.longest_delay.count();
  cuda::substitute_driver(&driver_);
}

FakeCuda::~FakeCuda() {
  cuda::substitute_driver(nullptr);
  fake_cuda::reset_driver();
}

void FakeCuda::fail(const std::string& function, int number, cuda::Result result) {
  fake_cuda::apply_failure(function.c_str(), number, result);
}

void FakeCuda::hang() {
  fake_cuda::course().is_hung = true;
}

void FakeCuda::let_go() {
  fake_cuda::course().is_hung = false;
}

void FakeCuda::break_devices(cuda::Result result) {
  fake_cuda::course().error = result;
}

std::size_t FakeCuda::num_left() const {
  return fake_cuda::num_objects_left();
}

void* FakeCuda::make_stream(int ordinal) {
  cuda::Functions& driver = functions();
  cuda::Context context = nullptr;
  cuda::Stream stream = nullptr;
  driver.device_primary_ctx_retain.call(&context, ordinal);
  driver.ctx_push_current.call(context);
  const cuda::Result result = driver.stream_create.call(&stream, cuda::kNonBlocking);
  driver.ctx_pop_current.call(&context);
  driver.device_primary_ctx_release.call(ordinal);
  if (result != cuda::kSuccess) throw Error(ErrorKind::comm, "no stream: ", result);
  return stream;
}

}  // namespace tnt::comm::tests
