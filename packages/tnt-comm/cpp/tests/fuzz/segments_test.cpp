// What is found in shared memory when it is opened.

#include <fcntl.h>
#include <sys/mman.h>

#include <memory>
#include <thread>

#include "fuzz.hpp"
#include "tnt/comm/transport/shm/control_segment.hpp"
#include "tnt/comm/transport/shm/shm_transport.hpp"

namespace tnt::comm::tests {
namespace {

constexpr double kLongWaitS = 30;
constexpr double kShortWaitS = 0.001;
constexpr double kNoReport = 1000;

void write_object(const std::string& name, const std::string& content) {
  const int descriptor = ::shm_open(name.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(::write(descriptor, content.data(), content.size()),
            static_cast<ssize_t>(content.size()));
  ::close(descriptor);
}

std::string read_object(const std::string& name) {
  const int descriptor = ::shm_open(name.c_str(), O_RDONLY, 0);
  std::string content(1 << 16, '\0');
  const ssize_t count = ::read(descriptor, content.data(), content.size());
  ::close(descriptor);
  content.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return content;
}

/// Both ranks of a job, joined.
struct Pair {
  explicit Pair(const std::string& prefix) {
    const HostRanks host{prefix, 0, 2};
    std::thread other([&] {
      second = std::make_shared<ControlSegment>(host, 1, Deadline(kLongWaitS), kNoReport);
    });
    first = std::make_shared<ControlSegment>(host, 0, Deadline(kLongWaitS), kNoReport);
    other.join();
  }
  std::shared_ptr<ControlSegment> first;
  std::shared_ptr<ControlSegment> second;
};

// As it is while rank 0 waits for rank 1.
std::string valid_control_segment(const std::string& prefix) {
  const HostRanks host{prefix, 0, 2};
  std::string content;
  std::thread reader([&] {
    const Deadline deadline(kLongWaitS);
    SharedMemory opened;
    while (SharedMemory::beginning_of(text("/tnt-", prefix, "-control"), 64).empty() &&
           !deadline.is_over()) {
      std::this_thread::yield();
    }
    content = read_object(text("/tnt-", prefix, "-control"));
  });
  EXPECT_THROW(ControlSegment(host, 0, Deadline(0.5), kNoReport), Error);
  reader.join();
  return content;
}

TEST(Fuzz, ControlSegmentOfAHost) {
  const std::string prefix = text("fuzzcontrol", ::getpid());
  const std::string name = text("/tnt-", prefix, "-control");
  const std::string valid = valid_control_segment(prefix);
  ASSERT_GT(valid.size(), 128U);
  fuzz([&](Mutator& mutator) {
    std::string content = valid;
    if (mutator.below(4) == 0) {
      content = mutator.changed(valid);
    } else {
      const std::size_t end = mutator.below(2) == 0 ? 256 : valid.size();
      mutator.change(reinterpret_cast<std::byte*>(content.data()), end);
    }
    write_object(name, content);
    ControlSegment opened({prefix, 0, 2}, 1, Deadline(kShortWaitS), kNoReport);
    for (int rank = 0; rank < 2; ++rank) {
      const PeerStatus status = opened.status_of(rank);
      EXPECT_GE(status.state, PeerState::starting);
      EXPECT_LE(status.state, PeerState::dead);
    }
    opened.leave(PeerState::finished, "");
  });
  SharedMemory::unlink(name);
}

TEST(Fuzz, SegmentOfAGroup) {
  const std::string prefix = text("fuzzsegment", ::getpid());
  const std::string name = text("/tnt-", prefix, "-x");
  const Pair pair(prefix);
  SegmentRequest request;
  request.key = "x";
  request.members = {0, 1};
  request.num_bytes = 100;
  request.num_notifications = 3;
  std::string valid(3 * 4096, '\0');  // the header, and two members
  valid[0] = valid[4] = 1;            // is ready, and mapped by one
  fuzz([&](Mutator& mutator) {
    std::string content = valid;
    if (mutator.below(4) == 0) {
      content = mutator.changed(valid);
    } else {
      mutator.change(reinterpret_cast<std::byte*>(content.data()), 16);
      mutator.change(reinterpret_cast<std::byte*>(content.data()), content.size());
    }
    write_object(name, content);
    ShmSegment segment(name, request, 1, pair.second, Deadline(kShortWaitS));
    for (NotificationId id = 0; id < request.num_notifications; ++id) segment.poll(0, id);
    EXPECT_EQ(segment.local() - segment.peer(0), 4096);
  });
  SharedMemory::unlink(name);
}

}  // namespace
}  // namespace tnt::comm::tests
