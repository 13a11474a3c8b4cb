#pragma once
// What lies between two devices of a node, in the words of nvidia-smi's topology matrix (its legend) and of NCCL (src/graph/topo.h, PATH_*).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "orrery/cluster/parts.hpp"

namespace orrery::cluster {

/// Nearest first: NVLink, one PCIe switch, several, a host bridge, several of one socket, several sockets.
enum class Path : std::uint8_t { kSelf, kNvLink, kPix, kPxb, kPhb, kNode, kSys };
struct PathClass {
  Path path = Path::kSys;
  int links = 0;  ///< of kNvLink: how many are bonded; 0 elsewhere
  bool operator==(const PathClass&) const = default;
};
/// "NV12", "PXB"; "X" for a device and itself.
std::string to_string(const PathClass& c);
/// The reverse; also SOC, which older drivers print for SYS.
std::optional<PathClass> read_path_class(std::string_view word);

/// One NVLink and direction: 25 GB/s from Volta to Hopper, 50 of Blackwell's (NVIDIA's architecture white papers).
BytesPerSecond nvlink_rate(std::string_view architecture);

/// A GPU or a NIC of a node, by its number.
struct Device {
  bool nic = false;
  int index = 0;
};
PathClass path_between(const Node& node, Device a, Device b);

}  // namespace orrery::cluster
