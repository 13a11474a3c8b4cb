#pragma once
// What machines say of themselves, read into node and fabric files: nvidia-smi's matrix, NCCL's topology XML, InfiniBand listings, Slurm's
// topology.conf. Each import says which lines it understood, and what it had to take because the file is silent.
#include <string>
#include <string_view>
#include <vector>

#include "orrery/cluster/paths.hpp"
#include "orrery/document/value.hpp"

namespace orrery::importers {

struct Options {
  std::string name;  ///< of the new node or fabric; empty: "imported"
  std::string gpu;   ///< catalogue name; empty: what the file says, or is taken
};

/// A line that adds nothing to the result, and why.
struct Unread {
  int number = 0;
  std::string text;  ///< trimmed and cut
  std::string why;
  bool operator==(const Unread&) const = default;
};

struct Imported {
  std::string kind;                     ///< "node" or "fabric"
  std::string format;                   ///< "nvidia-smi topo -m", …
  document::Value document;             ///< orrery/node/1 or orrery/fabric/1
  std::vector<std::string> understood;  ///< a line each, for people
  std::vector<std::string> taken;       ///< "member: what was taken, and why"
  int lines = 0;                        ///< with something on them
  std::vector<Unread> unread;           ///< of these, in order
  std::vector<std::string> gpus, nics;  ///< of a node: as the file calls them
  /// Of a node: the class of every pair of GPUs, then NICs, as the file states it.
  std::vector<std::vector<cluster::PathClass>> paths;
};

/// Tells the format by its content. Diagnostics: none of the formats, or what its reader refuses.
Result<Imported> import_topology(std::string_view text, const std::string& file, const Options& options);

// One file each; looks_like is what import_topology asks, in order.
bool looks_like_matrix(std::string_view text);
Result<Imported> import_matrix(std::string_view text, const std::string& file, const Options& options);
bool looks_like_nccl_xml(std::string_view text);
Result<Imported> import_nccl_xml(std::string_view text, const std::string& file, const Options& options);
bool looks_like_ibnetdiscover(std::string_view text);
Result<Imported> import_ibnetdiscover(std::string_view text, const std::string& file, const Options& options);
bool looks_like_iblinkinfo(std::string_view text);
Result<Imported> import_iblinkinfo(std::string_view text, const std::string& file, const Options& options);
bool looks_like_slurm(std::string_view text);
Result<Imported> import_slurm(std::string_view text, const std::string& file, const Options& options);

}  // namespace orrery::importers
