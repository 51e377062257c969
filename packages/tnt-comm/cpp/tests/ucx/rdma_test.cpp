#include <gtest/gtest.h>

#include <cstdint>

#include "ucx_device_pair.hpp"

namespace tnt::comm {
namespace {

using tests::kDeviceTimeoutS;
using tests::kQueue;
using tests::kSegment;
using tests::kSegmentBytes;

constexpr std::size_t kLong = UcxSender::kLeastPutBytes;

class UcxRdma : public tests::UcxDevicePair {
 protected:
  explicit UcxRdma(RdmaUse of_sender = RdmaUse::on, RdmaUse of_receiver = RdmaUse::on)
      : UcxDevicePair(of_sender, of_receiver) {}

  /// The ranks tell each other the keys of their segments, which have arrived then.
  void introduce() {
    const Deadline deadline(kDeviceTimeoutS);
    for (int rank = 0; rank < 2; ++rank) {
      devices_[rank]->introduce(kSegment, 1 - rank, deadline);
      devices_[rank]->notify(1 - rank, kSegment, kOfKeys, 7, kQueue);
    }
    for (const auto& device : devices_) {
      while (device->take_notification(kSegment, kOfKeys) == 0) ASSERT_FALSE(deadline.is_over());
    }
  }

  /// A write at the begin of the segment, and what tells of it, have arrived.
  void deliver(std::size_t num_bytes, int value) {
    write(0, num_bytes, value);
    notify(0);
    await(0);
    EXPECT_TRUE(has(0, num_bytes, value));
  }

  /// Both ranks have another segment of the same number.
  void replace_segments() {
    await_idle();
    for (int rank = 0; rank < 2; ++rank) {
      devices_[rank]->release(kSegment);
      memory_[rank] = devices_[rank]->allocate(kSegment, kSegmentBytes);
    }
  }

  /// Whether it stays away while messages go on.
  bool stays_away(std::size_t slot) {
    for (int look = 0; look < 1000; ++look) {
      sender().drain(kQueue);
      if (is_notified(slot)) return false;
    }
    return true;
  }

  void await_idle() {
    const Deadline deadline(kDeviceTimeoutS);
    while (sender().drain(kQueue) != QueueState::idle) ASSERT_FALSE(deadline.is_over());
  }

  static constexpr std::size_t kOfKeys = 1000;
};

TEST_F(UcxRdma, PutsALongWriteIntoTheSegment) {
  introduce();
  write(64, kLong, 1);
  notify(0);
  await(0);
  EXPECT_TRUE(has(64, kLong, 1));
  EXPECT_EQ(fake_.num_puts, 1U);
  EXPECT_EQ(fake_.num_flushes, 1U);
  EXPECT_EQ(fake_.num_misused, 0U);
  await_idle();
}

TEST_F(UcxRdma, ShowsNoNotificationBeforeWhatWasPutIsThere) {
  introduce();
  fake_.are_puts_held = true;
  write(0, kLong, 1);
  write(kLong, 16, 2);
  notify(0);
  EXPECT_TRUE(stays_away(0));
  EXPECT_FALSE(has(0, kLong, 1));
  fake_.are_puts_held = false;
  await(0);
  EXPECT_TRUE(has(0, kLong, 1));
  EXPECT_TRUE(has(kLong, 16, 2));
}

// It is sent at once, and waits at its receiver.
TEST_F(UcxRdma, LetsNoNotificationOvertakeOneThatWaitsForPuts) {
  introduce();
  fake_.are_puts_held = true;
  write(0, kLong, 1);
  notify(0);
  const std::size_t num_before = num_messages();
  notify(1);
  EXPECT_EQ(num_messages(), num_before + 1);
  EXPECT_EQ(fake_.num_flushes, 1U);
  EXPECT_TRUE(stays_away(1));
  fake_.are_puts_held = false;
  await(1);
  EXPECT_TRUE(is_notified(0));
  EXPECT_TRUE(has(0, kLong, 1));
}

TEST_F(UcxRdma, LetsWhatWasBeforeAPutLeaveAtOnce) {
  introduce();
  fake_.are_puts_held = true;
  write(kLong, 16, 2);
  notify_later(0);
  write(0, kLong, 1);
  await(0);
  EXPECT_TRUE(has(kLong, 16, 2));
  notify(1);
  EXPECT_TRUE(stays_away(1));
}

// The queue does not matter: a rank says that it has released a segment on another one.
TEST_F(UcxRdma, HoldsANotificationOfAnotherQueueBehindPuts) {
  introduce();
  fake_.are_puts_held = true;
  write(0, kLong, 1, kQueue);
  notify(0, kQueue + 1);
  EXPECT_TRUE(stays_away(0));
  fake_.are_puts_held = false;
  await(0);
  EXPECT_TRUE(has(0, kLong, 1));
}

TEST_F(UcxRdma, CountsPutsAndWhatWaitsForThemAsQueued) {
  introduce();
  await_idle();
  fake_.are_puts_held = true;
  write(0, kLong, 1);
  EXPECT_EQ(sender().num_queued(kQueue), 1U);
  notify(0);
  EXPECT_EQ(sender().num_queued(kQueue), 2U);
  EXPECT_EQ(sender().drain(kQueue), QueueState::busy);
  fake_.are_puts_held = false;
  await_idle();
}

TEST_F(UcxRdma, WritesInPiecesUntilTheKeyIsThere) {
  deliver(2 * kLong, 1);
  EXPECT_EQ(fake_.num_puts, 0U);
  introduce();
  deliver(2 * kLong, 2);
  EXPECT_EQ(fake_.num_puts, 1U);
}

// A rank writes as soon as it has been told of a segment.
TEST_F(UcxRdma, HasTheKeyBeforeANotificationThatWasSentBehindIt) {
  fake_.turns_order = true;
  fake_.is_held = true;
  devices_[1]->introduce(kSegment, 0, Deadline(kDeviceTimeoutS));
  devices_[1]->notify(0, kSegment, kOfKeys, 7, kQueue);
  fake_.is_held = false;
  const Deadline deadline(kDeviceTimeoutS);
  while (sender().take_notification(kSegment, kOfKeys) == 0) ASSERT_FALSE(deadline.is_over());
  deliver(kLong, 1);
  EXPECT_EQ(fake_.num_puts, 1U);
}

TEST_F(UcxRdma, WritesShortDataInPieces) {
  introduce();
  deliver(kLong - 1, 1);
  EXPECT_EQ(fake_.num_puts, 0U);
  EXPECT_EQ(fake_.num_flushes, 0U);
}

TEST_F(UcxRdma, TakesTheNewKeyOfASegmentThatHasTheNumberOfAFormerOne) {
  introduce();
  deliver(kLong, 1);
  replace_segments();
  introduce();
  deliver(kLong, 2);
  EXPECT_EQ(fake_.num_puts, 2U);
  EXPECT_EQ(fake_.num_misused, 0U);
  EXPECT_EQ(fake_.num_keys, 1U);
}

// Segments of a number that was used before may not find room in the adapter.
TEST_F(UcxRdma, ForgetsTheKeyOfAFormerSegmentIfThereIsNoNewOne) {
  introduce();
  deliver(kLong, 1);
  replace_segments();
  fake_.refuses_registration = true;
  introduce();
  deliver(kLong, 2);
  EXPECT_EQ(fake_.num_puts, 1U);
  EXPECT_EQ(fake_.num_keys, 0U);
}

TEST_F(UcxRdma, RefusesToRedirectWhatArrives) {
  std::byte target{};
  EXPECT_FALSE(devices_[1]->redirect(kSegment, 0, 1, &target));
}

TEST_F(UcxRdma, CountsAllAsDoneWhenAnEndpointFails) {
  introduce();
  fake_.are_puts_held = true;
  write(0, kLong, 1);
  notify(0);
  write(kLong, kLong, 1);
  notify(1);
  fake_.has_failed = true;
  await_idle();
  EXPECT_EQ(sender().failed_ranks(), std::vector<int>{1});
  EXPECT_FALSE(is_notified(0));
  write(0, kLong, 1);
  notify(2);
  await_idle();
  EXPECT_EQ(fake_.num_puts, 2U);
}

TEST_F(UcxRdma, EndsWithPutsUnderWay) {
  introduce();
  fake_.are_puts_held = true;
  write(0, kLong, 1);
  notify(0);
  devices_[0].reset();
  EXPECT_EQ(fake_.num_keys, 0U);
  EXPECT_EQ(fake_.num_registered, 2U);
  EXPECT_EQ(fake_.num_deregistered, 1U);
}

class UcxWithoutRdma : public UcxRdma {
 protected:
  UcxWithoutRdma() : UcxRdma(RdmaUse::off, RdmaUse::off) {}
};

TEST_F(UcxWithoutRdma, NeitherRegistersNorPutsAnything) {
  introduce();
  deliver(4 * kLong, 1);
  EXPECT_EQ(fake_.num_registered, 0U);
  EXPECT_EQ(fake_.num_puts, 0U);
  EXPECT_EQ(fake_.num_flushes, 0U);
}

/// Only one of the two has RDMA, in both directions.
class UcxWithRdmaOnOneSide : public UcxRdma {
 protected:
  UcxWithRdmaOnOneSide() : UcxRdma(RdmaUse::on, RdmaUse::off) {}
};

TEST_F(UcxWithRdmaOnOneSide, WritesInPieces) {
  introduce();
  deliver(4 * kLong, 1);
  EXPECT_EQ(fake_.num_registered, 0U);
  EXPECT_EQ(fake_.num_puts, 0U);
}

}  // namespace
}  // namespace tnt::comm
