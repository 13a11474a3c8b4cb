// What a command line may be handed by mistake or malice: each gets its message, in these words, exit 2 and an empty stdout.
#include <regex>

#include "catch.h"
#include "cli/command.hpp"
#include "orrery/document/document.hpp"

using namespace orrery;

namespace {

using test::command, test::Folder, test::kSmall, test::Said;

struct Case {
  std::vector<std::string> arguments;
  std::string message;
};

void refuses(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Said said = command(c.arguments);
    CAPTURE(c.arguments);
    CHECK(said.code == cli::kBadInput);
    CHECK(said.out.empty());
    CHECK(said.err == "orrery: " + c.message + "\n");
  }
}

/// A job that is refused for one --set; file is how messages name it.
struct Refusal {
  std::string set;
  std::vector<std::string> messages;  // all of them: a document's problems are named together
};
void refuses(const std::string& file, const std::vector<Refusal>& cases) {
  for (const Refusal& c : cases) {
    const Said said = command({"simulate", file, "--quiet", "--json", "-", "--set", c.set});
    CAPTURE(c.set);
    CHECK(said.code == cli::kBadInput);
    CHECK(said.out.empty());
    std::string expected;
    for (const std::string& m : c.messages) expected += "orrery: " + (m.front() == '/' ? file + ":" + m : m.front() == '-' ? m : file + ": " + m) + "\n";
    CHECK(std::regex_replace(said.err, std::regex("alone takes [0-9.e+]+ s"), "alone takes N s") == expected);  // N follows the calibration
  }
}

}  // namespace

TEST_CASE("options that cannot be read are refused by name, with what is accepted", "[hostile]") {
  refuses({
      {{"--frob"}, "unknown command \"--frob\"; orrery --help lists them"},
      {{"frob"}, "unknown command \"frob\"; orrery --help lists them"},
      {{"simulate", "x.json", "--trase", "t"}, "simulate: unknown option \"--trase\"; did you mean \"--trace\"?"},
      {{"simulate", "x.json", "--frobnicate"}, "simulate: unknown option \"--frobnicate\""},
      {{"simulate", "x.json", "y.json"}, "simulate: \"y.json\" is one argument too many"},
      {{"simulate", "x.json", "--set"}, "simulate: --set: a value is missing"},
      {{"simulate", "x.json", "--set", ""}, "--set : expected PATH=VALUE"},
      {{"simulate", "x.json", "--set", "=1"}, "--set =1: expected PATH=VALUE"},
      {{"simulate", "x.json", "--json", "a", "--json", "b"}, "simulate: --json: given more than once"},
      {{"simulate", "x.json", "--json", ""}, "simulate: --json: is empty"},
      {{"simulate", "x.json", "--trace", ""}, "simulate: --trace: is empty"},
      {{"simulate", "x.json", "--trace-format", "xml"}, "simulate: --trace-format: \"xml\" is unknown; use chrome"},
      {{"simulate", "x.json", "--max-events", "0"}, "simulate: --max-events: 0 is no whole number from 1 to 9223372036854775807"},
      {{"simulate", "x.json", "--max-events", "99999999999999999999"}, "simulate: --max-events: 99999999999999999999 is no whole number from 1 to 9223372036854775807"},
      {{"simulate", "x.json", "--threads", "1e3"}, "simulate: --threads: 1e3 is no whole number from 1 to 1024"},
      {{"simulate", "x.json", "--seed", "abc"}, "simulate: --seed: abc is no whole number from 0 to 9007199254740992"},
      {{"simulate", "x.json", "--seed", "-1"}, "simulate: --seed: -1 is no whole number from 0 to 9007199254740992"},
      {{"simulate", "x.json", "--seed", ""}, "simulate: --seed: is empty"},
      {{"model", "show", "llama-3.1-8b", "--sequence", "0"}, "model: show: --sequence: 0 is no whole number from 1 to 4294967296"},
      {{"model"}, "model: one of these is required: show"},
      {{"catalog", "show"}, "catalog: show: NAME is required"},
      {{"catalog", "show", "../scenarios/x"}, "catalog show: nothing is called \"../scenarios/x\""},
      {{"schema", "scenaro"}, "unknown schema \"scenaro\"; did you mean \"scenario\"?"},
  });
}

TEST_CASE("no output replaces another, or the scenario it was made from", "[hostile]") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall), out = folder.file("out.json");
  refuses({
      {{"simulate", path, "--trace", "-"}, "--trace -: a trace goes to a file; standard output is for the table or --json -"},
      {{"simulate", path, "--trace", out, "--json", out}, "--trace and --json both write " + out},
      {{"simulate", path, "--json", path}, "--json " + path + " would replace the scenario"},
      {{"simulate", path, "--trace", path}, "--trace " + path + " would replace the scenario"},
      {{"simulate", path, "--trace-ranks", "0"}, "--trace-ranks says what a trace shows, but no --trace or --timeline FILE is asked for"},
  });
  CHECK_FALSE(std::filesystem::exists(out));
  CHECK(std::filesystem::file_size(path) == kSmall.size());
}

TEST_CASE("an output that cannot be written is an error with its reason, and stdout stays empty", "[hostile]") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  std::filesystem::create_symlink("loop", folder.file("loop"));
  for (const char* option : {"--json", "--trace"})
    refuses({
        {{"simulate", path, "--quiet", option, "/nonexistent/x"}, "/nonexistent/x: cannot be written: no such file or directory"},
        {{"simulate", path, "--quiet", option, folder.file(".")}, folder.file(".") + ": cannot be written: is a directory"},
        {{"simulate", path, "--quiet", option, "/dev/full"}, "/dev/full: cannot be written: no space left on device"},
        {{"simulate", path, "--quiet", option, folder.file("loop")}, folder.file("loop") + ": cannot be written: too many levels of symbolic links"},
    });
}

TEST_CASE("a scenario that is no document is refused with line and column", "[hostile]") {
  const Folder folder;
  std::filesystem::create_symlink("loop.json", folder.file("loop.json"));
  const auto file = [&](const std::string& name, const std::string& text, const std::string& message) { refuses({{{"simulate", folder.write(name, text)}, folder.file(name) + ": " + message}}); };
  file("empty.json", "", "is empty; a JSON document is expected");
  file("truncated.json", R"({"schema":"orrery/scenario/1", "mod)", "line 1, column 36: the text ends before the document does");
  file("latin1.json", "{\"name\":\"\xff\"}", "line 1, column 10: not UTF-8");
  file("nul.json", std::string("{\"name\":\"a\0b\"}", 14), "line 1, column 11: not JSON: a NUL");
  file("deep.json", std::string(100'000, '['), "line 1, column 65: nested deeper than 64 levels");
  file("huge.json", std::string((64 << 20) + 1, ' '), "longer than 64 MiB");
  std::string many = "[1";
  for (int i = 0; i < 4'000'000; ++i) many += ",1";
  file("many.json", many + "]", "line 1, column 8000004: more than 4000000 values");
  file("twice.json", R"({"name": "a", "name": "b"})", "line 1, column 15: the member \"name\" appears twice");
  file("array.json", "[]", "expected a scenario as an object, found an array");
  refuses({{{"simulate", folder.file("loop.json")}, folder.file("loop.json") + ": cannot be read: too many levels of symbolic links"},
           {{"simulate", folder.file(".")}, folder.file(".") + ": cannot be read: is a directory"},
           {{"simulate", "/dev/null"}, "/dev/null: is empty; a JSON document is expected"},
           {{"simulate", "/dev/zero"}, "/dev/zero: longer than 64 MiB"}});
}

TEST_CASE("a byte order mark, CRLF and comments do not stand in the way", "[hostile]") {
  const Folder folder;
  std::string crlf = "\xef\xbb\xbf";
  for (const char c : kSmall) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  CHECK(command({"simulate", folder.write("crlf.json", crlf), "--json", "-"}).out == command({"simulate", folder.write("small.json", kSmall), "--json", "-"}).out);
}

TEST_CASE("plans that cannot be are refused with their place and what would do", "[hostile]") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  refuses(path, {
      {"parallelism.pp=0", {"/parallelism/pp: 0 is out of range; accepted are integers from 1 to 1073741824"}},
      {"parallelism.tp=-1", {"/parallelism/tp: -1 is out of range; accepted are integers from 1 to 1073741824"}},
      {"parallelism.tp=2147483648", {"/parallelism/tp: 2147483648 is out of range; accepted are integers from 1 to 1073741824"}},
      {"parallelism.tp=1e308", {"/parallelism/tp: 1e+308 is out of range; accepted are integers from 1 to 1073741824"}},
      {"parallelism.tp=0.5", {"/parallelism/tp: expected an integer, found 0.5"}},
      {"parallelism.tp=two", {"/parallelism/tp: expected an integer, found \"two\""}},
      {"parallelism.tp=16", {"/parallelism/tp: one replica takes tp 16 x cp 1 x pp 2 GPUs, but the job has 8",
        "/parallelism/tp: 16 ranks cannot share 8 kv_heads evenly; use a divisor of 8 (2, 4, 8)"}},
      {"parallelism.dp=3", {"/parallelism/dp: tp 2 x cp 1 x pp 2 x dp 3 is not the job's 8 GPUs; use dp 2 or null",
        "/training/global_batch: 32 is no multiple of micro_batch 1 x dp 3; use 30 or 33"}},
      {"parallelism.pp=3", {"/parallelism/dp: 8 GPUs are no whole number of replicas of tp 2 x cp 1 x pp 3 = 6 GPUs; use 6 or 12 GPUs, or change tp, cp or pp",
        "/parallelism/pp: 3 stages cannot share 32 layers evenly; use a divisor of 32 (2, 4, 8) or give layers_per_stage"}},
      {"parallelism.schedule=interleaved_1f1b", {"/parallelism/vp: interleaved_1f1b needs at least 2 chunks per stage; use vp 2 or more, or schedule 1f1b"}},
      {"parallelism={\"vp\": 2, \"schedule\": \"1f1b\"}", {"/parallelism/vp: 1f1b has one chunk per stage; use vp 1, or schedule interleaved_1f1b"}},
      {"parallelism.schedule=zb_v", {"/parallelism/vp: zb_v has exactly 2 chunks per stage; use vp 2"}},
      {"parallelism.schedule=zb_w", {"/parallelism/schedule: unknown value \"zb_w\"; did you mean \"zb_v\"?"}},
      {"parallelism.schedule={}", {"/parallelism/schedule/file: missing; a catalogue name, a path or an object is required"}},
      {"parallelism.schedule={\"file\": 3}", {"/parallelism/schedule/file: expected a catalogue name, a path or an object, found 3"}},
      {"model.layers=1", {"/parallelism/pp: 2 stages are more than 1 layers; use fewer stages, or give layers_per_stage"}},
      {"model.heads=33", {"/model/kv_heads: 33 heads cannot share 8 key and value heads evenly; use a divisor of 33"}},
      {"training.global_batch=33", {"/training/global_batch: 33 is no multiple of micro_batch 1 x dp 2; use 32 or 34"}},
      {"training.global_batch=1099511627776", {"/training/global_batch: 549755813888 microbatches a step are more than Orrery plays; use at most 1000000"}},
      {"training.global_batch=800000",
       {"/training/global_batch: 400000 microbatches a step through 32 layers are more than the 524288 layer passes that Orrery plays; use a smaller global_batch, a larger micro_batch or more data-parallel ranks"}},
      {"training.micro_batch=1073741824", {"/training/global_batch: 32 sequences are no whole number of microbatches of 1073741824; use a multiple of micro_batch x dp"}},
      {"cluster.nodes=9007199254740992", {"/cluster/nodes: 9007199254740992 is out of range; accepted are integers from 1 to 16777216"}},
      {"cluster.nodes=2", {"/cluster/fabric: 2 nodes of dgx-h100 do not share one scale-up domain; name a fabric"}},
      {"cluster.gpus=16", {"/cluster/gpus: the job wants 16 GPUs, but 1 nodes with 8 each have 8; raise /cluster/nodes or lower /cluster/gpus"}},
      {"cluster.gpus_per_node=9", {"/cluster/gpus_per_node: a dgx-h100 has 8 GPUs; use 1 to 8, or null for all"}},
      {"training.micro_bacth=2", {"--set:/training/micro_bacth: unknown member; did you mean \"micro_batch\"?"}},
      {"parallelism.order.0=tp", {"--set:/parallelism/order/0: the array has 0 items; to add one, set the whole array"}},
      {"model=lama-3.1-8b", {"/model: unknown model \"lama-3.1-8b\"; did you mean \"llama-3.1-8b\"?"}},
      {"calibration=nope", {"/calibration: unknown profile \"nope\"; \"orrery catalog list\" shows the 25 known"}},
      {R"(events=[{"kind":"slow_gpu","rank":8,"speed":0.5}])", {"/events/0/rank: there is no rank 8; the job has ranks 0 to 7"}},
      {R"(events=[{"kind":"degraded_link","link":"node9/nic0","capacity":0.5}])", {"/events/0/link: node9/nic0: node 9 is out of range; 0 to 0"}},
      {R"(events=[{"kind":"degraded_link","link":"node0/gpu0/nvlink","capacity":0}])", {"/events/0/link: node0/gpu0/nvlink: a GPU's scale-up port is its only way to its domain; give it a capacity above 0"}},
  });
}

TEST_CASE("what would take longer than simulated time is refused, not an internal error", "[hostile]") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  refuses(path, {
      {"training.sequence_length=1073741824", {"\"decoder backward 7\" alone takes N s, and at most 1.15e+06 s (13 days) are played; lower the sizes of the model or /training/sequence_length, or raise the GPU's rates"}},
      {"cluster.node.gpu.memory_bandwidth_gb_per_s=1e-30", {"\"optimizer 0\" alone takes N s, and at most 1.15e+06 s (13 days) are played; lower the sizes of the model or /training/sequence_length, or raise the GPU's rates"}},
      {"cluster.node.gpu.scale_up_gb_per_s=1e-9",
       {"/cluster: link node0/gpu0/nvlink:out carries 1 bytes/s, and from 1e+04 to 1e+15 are played; look at the rates of the node, its GPU, the fabric and the events"}},
      {R"(events=[{"kind":"degraded_link","link":"node0/gpu0/nvlink","capacity":1e-12}])",
       {"/cluster: link node0/gpu0/nvlink:out carries 0.45 bytes/s, and from 1e+04 to 1e+15 are played; look at the rates of the node, its GPU, the fabric and the events"}},
  });
}

TEST_CASE("a model that does not fit says by how much and what would help, ends with 1, and its report is whole", "[hostile]") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall), report = folder.file("report.json");
  const Said said = command({"simulate", path, "--quiet", "--json", report, "--set", "cluster.node.gpu.memory_capacity_gib=16"});
  CHECK(said.code == cli::kNo);
  CHECK(said.err == "orrery: does not fit: rank 4 needs 28.40 GiB of 16.00, 12.40 GiB too much; twice the tp or pp frees up to 11.2 GiB, not enough alone\n");
  CHECK(said.out.find("  does not fit in 16.00 GiB: ") != std::string::npos);
  const auto text = document::read_file(report);
  REQUIRE(text);
  const auto value = document::parse(*text, report);
  REQUIRE(value);
  CHECK(value->at("memory").at("fits") == document::Value(false));
  CHECK_FALSE(value->at("memory").at("advice").items().empty());
  CHECK(value->at("step").at("time_s").as_double() > 0);
}

TEST_CASE("--strict refuses weak numbers by name with a whole report, for every command that predicts", "[hostile]") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  const std::regex words("orrery: --strict: (less than 0.1|[0-9.]+) % of the step time stands on default numbers: launch and host times; measurements of them, as a calibration profile of "
                         "h100-sxm5-80gb or in the stack, lift this\n");
  for (std::vector<std::string> arguments : std::vector<std::vector<std::string>>{{"simulate", path}, {"memory", path}, {"whatif", path, "--set", "parallelism.pp=1"}}) {
    arguments.insert(arguments.end(), {"--quiet", "--json", "-"});
    const Said lax = command(arguments);
    arguments.push_back("--strict");
    const Said strict = command(arguments);
    CAPTURE(strict.err);
    CHECK(lax.code == cli::kSuccess);
    CHECK(strict.code == cli::kNo);
    CHECK(strict.out == lax.out);
    CHECK(std::regex_match(strict.err, words));
  }
}

TEST_CASE("unconfirmed members are one warning, not a wall", "[hostile]") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  CHECK(command({"simulate", path}).err ==
        "orrery: warning: " + path + ": no source confirms some members of /cluster/node, /stack; \"warnings\" in the JSON report names them\n");
}

TEST_CASE("every help fits 100 columns and ends with an example", "[hostile]") {
  std::vector<std::vector<std::string>> all = {{"--help"}, {"catalog", "list", "--help"}, {"catalog", "show", "--help"}, {"model", "show", "--help"}};
  for (const cli::CommandName& c : cli::command_names())
    if (c.built) all.push_back({std::string(c.name), "--help"});
  for (const std::vector<std::string>& arguments : all) {
    const Said said = command(arguments);
    CAPTURE(arguments, said.out);
    CHECK(said.code == cli::kSuccess);
    if (arguments.size() < 3) CHECK(said.out.find("\nExample: orrery ") != std::string::npos);
    std::istringstream lines(said.out);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  }
}

TEST_CASE("topologies that are broken, absurd or hostile are refused in words, and nothing is written", "[hostile]") {
  const Folder folder;
  const std::string out = folder.file("node.json");
  const auto file = [&](const std::string& name, const std::string& text, const std::string& message) {
    refuses({{{"import", folder.write(name, text), "-o", out}, folder.file(name) + ": " + message}});
  };
  file("empty.txt", "", "no topology that is known here: nvidia-smi topo -m, NCCL topology XML, ibnetdiscover, iblinkinfo, Slurm topology.conf");
  file("wide.txt", "GPU0 GPU1\nGPU0 X NV65\nGPU1 PHB X\n", "line 2: \"NV65\" is no path; known are X, NV#, PIX, PXB, PHB, NODE, SYS");
  std::string deep = "<system><cpu>";
  for (int i = 0; i < 20; ++i) deep += "<pci>";
  for (int i = 0; i < 20; ++i) deep += "</pci>";
  file("deep.xml", deep + "</cpu></system>", "line 1: more than 7 bridges deep or 512 devices; this is no machine");
  file("many.conf", "SwitchName=a Nodes=n[0-99999999]\n", "line 1: \"n[0-99999999]\" is no list of names such as node[01-16,20]");
  file("square.conf", "SwitchName=a Nodes=a[0-9999]b[0-9999]\n", "line 1: \"a[0-9999]b[0-9999]\" is no list of names such as node[01-16,20]");
  const std::string good = folder.write("good.txt", "GPU0 GPU1\nGPU0 X PHB\nGPU1 PHB X\n");
  refuses({
      {{"import"}, "import: FILE is required"},
      {{"import", folder.file("missing")}, folder.file("missing") + ": cannot be read: no such file or directory"},
      {{"import", good, "-o", good}, "-o " + good + " would replace what it imports"},
      {{"import", good, "--json", good}, "--json " + good + " would replace what it imports"},
      {{"import", good, "-o", out, "--json", out}, "-o and --json both write " + out},
  });
  CHECK_FALSE(std::filesystem::exists(out));
}
