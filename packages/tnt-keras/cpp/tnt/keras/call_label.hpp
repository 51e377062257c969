// What an operation says about its calls of tnt-comm.
#pragma once

#include <string>
#include <utility>

#include "tnt/keras/kernel.hpp"

namespace tnt::keras {

/// The attributes `label` and `caller` of an operation.
///
/// What it calls under them is compared between ranks by the label, and messages show both. The
/// timeline shows how long the call took, under the caller's name. Both may be empty: then nothing
/// is compared, or shown.
class CallLabel {
 public:
  /// What operations declare.
  static constexpr const char* kLabel = "label: string = ''";
  static constexpr const char* kCaller = "caller: string = ''";

  explicit CallLabel(TF_OpKernelConstruction* context)
      : label_(string_attribute(context, "label")), caller_(string_attribute(context, "caller")) {}

  /// Where the calls stem from.
  const std::string& caller() const { return caller_; }

  /// Runs a function under the label, to which the shape that `tensor` must have on all ranks is
  /// added: from dimension `first_dim` on.
  template <typename Function>
  void run(const TF_Tensor* tensor, int first_dim, Function&& function) const {
    const Slice slice(caller_);
    if (label_.empty()) return function();
    const Label label(label_ + text_of_shape(tensor, first_dim), caller_);
    function();
  }

  /// Runs a function that waits for a call which was made under the label before.
  template <typename Function>
  void wait(Function&& function) const {
    const Slice slice(caller_);
    function();
  }

 private:
  class Label {
   public:
    Label(const std::string& label, const std::string& caller) {
      check(comm_library().set_label(label.c_str(), caller.c_str()));
    }
    ~Label() { comm_library().set_label(nullptr, nullptr); }
    Label(const Label&) = delete;
    Label& operator=(const Label&) = delete;
  };

  class Slice {
   public:
    explicit Slice(const std::string& name) : name_(name) {
      if (!name_.empty()) comm_library().timeline_begin(name_.c_str());
    }
    ~Slice() {
      if (!name_.empty()) comm_library().timeline_end(name_.c_str());
    }
    Slice(const Slice&) = delete;
    Slice& operator=(const Slice&) = delete;

   private:
    const std::string& name_;
  };

  static std::string text_of_shape(const TF_Tensor* tensor, int first_dim);

  std::string label_;
  std::string caller_;
};

}  // namespace tnt::keras
