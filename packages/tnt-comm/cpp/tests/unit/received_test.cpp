// What other ranks send, or leave in shared memory, may be anything.

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "errors.hpp"
#include "scripted_gaspi.hpp"
#include "scripted_segment.hpp"
#include "tnt/comm/base/error.hpp"
#include "tnt/comm/collective/abort_state.hpp"
#include "tnt/comm/collective/descriptor.hpp"
#include "tnt/comm/collective/rendezvous.hpp"
#include "tnt/comm/transport/local/solo_transport.hpp"
#include "tnt/comm/transport/rma/gpi2/gaspi_library.hpp"
#include "tnt/comm/transport/rma/mailbox.hpp"
#include "tnt/comm/transport/rma/rma_core.hpp"
#include "tnt/comm/transport/shm/control_segment.hpp"

namespace tnt::comm::tests {
namespace {

constexpr int kSize = 3;

bool says(const Error& error, const std::string& part) {
  return std::string(error.what()).find(part) != std::string::npos;
}

TEST(Received, DescriptorsOfNoKnownKindAreDescribed) {
  Descriptor descriptor;
  descriptor.kind = CollectiveKind::allreduce;
  descriptor.dtype = static_cast<DType>(200);
  descriptor.op = static_cast<ReduceOp>(201);
  descriptor.algorithm = static_cast<AllreduceAlgorithm>(202);
  descriptor.count = 5;
  EXPECT_EQ(descriptor.describe(),
            "allreduce(unknown, 5 elements, unknown, TNT_ALLREDUCE_ALGORITHM=unknown)");
}

TEST(Received, AReportWithoutEndIsCutOff) {
  SoloTransport transport;
  const auto segment = std::make_shared<ScriptedSegment>(1, kSize, AbortState::num_bytes(kSize));
  std::memset(segment->local(), 'x', AbortState::num_bytes(kSize));
  segment->set_notification(2, AbortState::kNotification, 1);
  const AbortState abort_state("x", {0, 1, 2}, segment, transport, nullptr);
  const std::string what = abort_state.failure_of_others().value().what();
  EXPECT_EQ(what.substr(what.find("reports: ")), "reports: " + std::string(1020, 'x'));
}

TEST(Received, ANoticeWithoutEndIsCutOff) {
  const auto segment = std::make_shared<ScriptedSegment>(1, kSize, Rendezvous::num_bytes(kSize));
  const Rendezvous creations(segment, 0, 0);
  std::memset(segment->local(), 'x', Rendezvous::num_bytes(kSize));
  segment->set_notification(2, 0, 1);
  segment->set_notification(2, 1, 1);
  EXPECT_EQ(creations.awaited_by(2), std::string(1004, 'x'));
  EXPECT_EQ(creations.refusal(), std::string(1004, 'x'));
}

class ReceivedByMailbox : public ::testing::Test {
 protected:
  static constexpr std::size_t kMessages = 3;  // slots of rank 1
  static constexpr std::size_t kTaken = 4;
  static std::uint32_t count(std::uint32_t value) { return 0x80000000U | value; }

  ScriptedGaspi gaspi{2};
  PeerTable peers{0, 2};
  DataQueues queues{gaspi, [] {}};
  int num_taken = 0;
  Mailbox mailbox{gaspi, 0, peers, queues, [this](int, const ControlMessage&) { ++num_taken; }};
};

TEST_F(ReceivedByMailbox, MoreMessagesThanThereIsRoomForAreRefused) {
  gaspi.set_notification(kMessages, count(8));
  mailbox.exchange();
  EXPECT_EQ(num_taken, 8);
  gaspi.set_notification(kMessages, count(17));
  EXPECT_TRUE(says(error_of([&] { mailbox.exchange(); }),
                   "rank 1 counts 17 control messages, but at most 16 can have been sent"));
  EXPECT_EQ(num_taken, 8);
}

TEST_F(ReceivedByMailbox, MoreThanWasSentCannotHaveBeenTaken) {
  for (int message = 0; message < 20; ++message) mailbox.send(1, {ControlKind::released, "x"});
  EXPECT_EQ(gaspi.num_written(), 8U);
  gaspi.set_notification(kTaken, count(9));
  EXPECT_TRUE(says(error_of([&] { mailbox.exchange(); }), "at most 8 can have been sent"));
  EXPECT_EQ(gaspi.num_written(), 8U);
}

TEST(Received, AMessageOfAnUnknownKindIsRefused) {
  SegmentNotices rendezvous;
  const ControlMessage message(static_cast<ControlKind>(77), "x");
  const Error error = error_of([&] { rendezvous.note(1, message); });
  EXPECT_EQ(error.kind(), ErrorKind::mismatch);
  EXPECT_TRUE(says(error, "rank 1 has sent a message of kind 77"));
  EXPECT_FALSE(rendezvous.said("x", 1).has_released);
}

TEST(Received, WhoLeavesInNoKnownStateIsDead) {
  PeerTable peers(0, 2);
  peers.left(1, static_cast<PeerState>(77), "");
  EXPECT_EQ(peers.status_of(1).state, PeerState::dead);
  EXPECT_FALSE(peers.is_reachable(1));
}

std::array<std::byte, kMostConfigBytes> config_bytes;

TEST(Received, ATcpPortThatIsNoneIsNoSettingOfGpi2) {
  const GaspiLayout& layout = kGaspiLayouts[1];
  GaspiLibrary library;
  library.layout = &layout;
  library.functions.config_get = [](void* config) {
    std::memcpy(config, config_bytes.data(), config_bytes.size());
    return 0;
  };
  const auto set = [](std::size_t offset, std::uint32_t value) {
    std::memcpy(config_bytes.data() + offset, &value, sizeof value);
  };
  set(layout.sn_port, 12121);
  set(layout.tcp_port, 19000);
  set(layout.network, 2);  // Ethernet
  set(layout.queue_size_max, 1024);
  set(layout.queue_num, 8);
  set(layout.segment_max, 32);
  set(layout.notification_num, 65536);
  read_gaspi_settings(library);
  set(layout.tcp_port, 0x7fffffff);
  EXPECT_TRUE(says(error_of([&] { read_gaspi_settings(library); }), "TCP port 2147483647"));
  set(layout.network, 0);  // InfiniBand, which has no use for it
  read_gaspi_settings(library);
}

TEST(Received, AStateThatIsNoneIsNoSignOfLife) {
  const HostRanks host{text("receivedtest", ::getpid()), 0, 2};
  std::unique_ptr<ControlSegment> second;
  std::thread other(
      [&] { second = std::make_unique<ControlSegment>(host, 1, Deadline(30), 1000); });
  const ControlSegment first(host, 0, Deadline(30), 1000);
  other.join();
  ASSERT_TRUE(second);
  EXPECT_EQ(first.status_of(1).state, PeerState::running);
  // It stands behind the doorbell.
  auto& state = *reinterpret_cast<std::atomic<std::uint32_t>*>(&second->doorbell_of(1) + 1);
  ASSERT_EQ(state.load(), 1U + static_cast<std::uint32_t>(PeerState::running));
  state.store(1234567);
  EXPECT_EQ(first.status_of(1).state, PeerState::dead);
}

}  // namespace
}  // namespace tnt::comm::tests
