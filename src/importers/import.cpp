#include <array>

#include "orrery/importers/importers.hpp"

namespace orrery::importers {

Result<Imported> import_topology(std::string_view text, const std::string& file, const Options& options) {
  struct Reader {
    bool (*looks_like)(std::string_view);
    Result<Imported> (*import)(std::string_view, const std::string&, const Options&);
  };
  constexpr std::array kReaders{
      Reader{looks_like_nccl_xml, import_nccl_xml},
      Reader{looks_like_matrix, import_matrix},
      Reader{looks_like_iblinkinfo, import_iblinkinfo},
      Reader{looks_like_ibnetdiscover, import_ibnetdiscover},
      Reader{looks_like_slurm, import_slurm},
  };
  for (const Reader& r : kReaders) {
    if (r.looks_like(text)) return r.import(text, file, options);
  }
  return fail(file, "", "no topology that is known here: nvidia-smi topo -m, NCCL topology XML, ibnetdiscover, iblinkinfo, Slurm topology.conf");
}

}  // namespace orrery::importers
