#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "orrery/document/document.hpp"

namespace orrery::document {
namespace {

constexpr std::size_t kLongestFile = 64U * 1024 * 1024 + 1;  // one byte over what parse accepts: /dev/zero ends too

std::string lower_error(int error) {
  std::string text = std::generic_category().message(error);
  if (!text.empty() && text[0] >= 'A' && text[0] <= 'Z') text[0] = static_cast<char>(text[0] - 'A' + 'a');
  return text;
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  /// 0, or the error: a full disk may show only here.
  int close() {
    const int result = ::close(fd_);
    fd_ = -1;
    return result == 0 ? 0 : errno;
  }

 private:
  int fd_;
};

int write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t n = ::write(fd, content.data(), content.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    content.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

Result<bool> cannot_write(const std::string& path, int error) { return fail(path, "", fmt::format("cannot be written: {}", lower_error(error))); }

/// Where a symbolic link points, so that the link stays one.
std::string target_of(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

}  // namespace

Result<std::string> read_file(const std::string& path) {
  if (path.find('\0') != std::string::npos) return fail(path, "", "cannot be read: its name holds a NUL");
  const bool standard_input = path == "-";
  File file(standard_input ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return fail(path, "", fmt::format("cannot be read: {}", lower_error(errno)));
  std::string content;
  char buffer[65536];
  while (content.size() < kLongestFile) {
    const ssize_t n = ::read(file.fd(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(path, "", fmt::format("cannot be read: {}", lower_error(errno)));
    if (n == 0) break;
    content.append(buffer, static_cast<std::size_t>(n));
  }
  return content;
}

Result<bool> write_file(const std::string& path, std::string_view content) {
  if (path.find('\0') != std::string::npos) return fail(path, "", "cannot be written: its name holds a NUL");
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (!exists && errno != ENOENT) return cannot_write(path, errno);
  if (exists && !S_ISREG(status.st_mode)) {  // a device or a pipe is written to; renaming over it would replace it
    File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (file.fd() < 0) return cannot_write(path, errno);
    if (const int error = write_all(file.fd(), content)) return cannot_write(path, error);
    if (const int error = file.close()) return cannot_write(path, error);
    return true;
  }
  const std::string target = exists ? target_of(path) : path;
  const std::string beside = fmt::format("{}.{}.orrery-tmp", target, ::getpid());
  const mode_t mode = exists ? status.st_mode & 07777U : 0666U;
  File file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (file.fd() < 0) return cannot_write(path, errno);
  int error = write_all(file.fd(), content);
  if (const int close_error = file.close(); error == 0) error = close_error;
  if (error == 0 && ::rename(beside.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(beside.c_str());
    return cannot_write(path, error);
  }
  return true;
}

Result<std::string> config_dir() {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  if (const char* stated = std::getenv("ORRERY_CONFIG_DIR"); stated != nullptr && *stated != '\0') {
    std::error_code missing;  // what somebody states is not passed over in silence
    if (!fs::is_directory(stated, missing)) return fail(stated, "", "is no folder, but ORRERY_CONFIG_DIR names it; name the folder configs of the source tree, or unset it");
    return std::string(stated);
  }
  std::error_code error;
  if (const fs::path binary = fs::read_symlink("/proc/self/exe", error); !error) {
    places.push_back(binary.parent_path() / "share/orrery/configs");
    places.push_back(binary.parent_path().parent_path() / "share/orrery/configs");  // as installed: bin/ beside share/
  }
  places.emplace_back(ORRERY_SOURCE_CONFIGS);
  for (const fs::path& place : places) {
    if (fs::is_directory(place, error)) return place.string();
  }
  return fail("", "", "the catalogue was not found; set ORRERY_CONFIG_DIR to the folder configs of the source tree");
}

}  // namespace orrery::document
