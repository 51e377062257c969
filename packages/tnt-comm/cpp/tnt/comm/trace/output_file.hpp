#pragma once

#include <string>
#include <string_view>

namespace tnt::comm {

/// Writes a file as a whole or not at all: under another name, from which it is
/// put in place. What was there before stays until then.
///
/// The other name cannot be guessed and is never one that is there already, so
/// that in a folder where others may write, too, no link of theirs is followed.
/// All functions throw CommError if the file cannot be written.
class NewFile {
 public:
  explicit NewFile(std::string path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void add(std::string_view text);
  void put_in_place();

 private:
  std::string path_;
  std::string name_;
  int file_ = -1;
};

/// Writes into a device or a pipe, which stays what it is. Gives up, with a
/// CommError, where nobody reads a pipe for some seconds.
class OpenedFile {
 public:
  explicit OpenedFile(std::string path);
  ~OpenedFile();
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  void add(std::string_view text);

 private:
  std::string path_;
  int file_ = -1;
};

/// CommError about a file, with the error of the last call of the system.
[[noreturn]] void refuse_file(const std::string& path, const char* what);

}  // namespace tnt::comm
