#include "tnt/comm/reducer/reducer_tracks.hpp"

#include "tnt/comm/base/text.hpp"
#include "tnt/comm/trace/render.hpp"

namespace tnt::comm {

BucketTrack::BucketTrack(Timeline& timeline, const std::string& label, const std::string& title,
                         std::size_t num_bytes, std::size_t num_tensors)
    : timeline_(timeline),
      ready_(timeline.name("ready")),
      started_(timeline.name("started")),
      reduced_(timeline.name("reduced")),
      finished_(timeline.name("finished")),
      failed_(timeline.name("failed")),
      wait_name_(timeline.name(text("wait for ", label))),
      num_tensors_(num_tensors) {
  RowSpec spec;
  spec.title = title;
  spec.category = "bucket";
  spec.value_name = "step";
  spec.arguments = text(R"("bucket":)", quoted(label), R"(,"bytes":)", num_bytes);
  row_ = timeline.add_row(std::move(spec));
}

void BucketTrack::ready(std::uint64_t step) {
  step_ = step;
  timeline_.enter(row_, ready_, step);
}

void BucketTrack::end(bool is_complete) {
  if (is_complete) {
    timeline_.enter(row_, reduced_, step_);
  } else {
    timeline_.instant(row_, failed_, step_);
  }
}

void BucketTrack::finish_tensor() {
  if (num_finished_.fetch_add(1) + 1 < num_tensors_) return;
  num_finished_.store(0);
  timeline_.instant(row_, finished_, step_);
}

PhaseTrack::PhaseTrack(Timeline& timeline, const std::string& phase, const std::string& reducer,
                       std::size_t num_tensors)
    : timeline_(timeline), name_(timeline.name(phase)), num_tensors_(num_tensors) {
  RowSpec spec;
  spec.title = text(phase, " (", reducer, ")");
  spec.category = "phase";
  spec.value_name = "step";
  row_ = timeline.add_row(std::move(spec));
}

void PhaseTrack::begin_tensor(std::uint64_t step) {
  if (num_begun_.fetch_add(1) == 0) timeline_.begin(row_, name_, step);
}

void PhaseTrack::end_tensor() {
  if (num_ended_.fetch_add(1) + 1 < num_tensors_) return;
  num_ended_.store(0);
  num_begun_.store(0);
  timeline_.end(row_, name_);
}

}  // namespace tnt::comm
