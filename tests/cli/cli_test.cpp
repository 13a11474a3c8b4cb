#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>
#include <unistd.h>

#include "catch.h"
#include "cli/command.hpp"
#include "cli/trace_ranks.hpp"
#include "orrery/cli/cli.hpp"
#include "orrery/document/document.hpp"

using namespace orrery;

namespace {

using test::command, test::Folder, test::kSmall, test::Said;

document::Value json(const std::string& text) {
  const auto value = document::parse(text, "output");
  REQUIRE(value);
  return *value;
}

}  // namespace

TEST_CASE("every command of the contract is known once, and the unbuilt are refused as such") {
  const std::set<std::string> contract = {"simulate", "whatif", "sweep", "search", "sensitivity", "scale", "memory", "collective", "explain", "calibrate", "validate",
                                          "run", "plan-capacity", "import", "report", "catalog", "model", "schema", "doctor", "completion"};
  std::set<std::string> known;
  for (const cli::CommandName& c : cli::command_names()) {
    CHECK(known.insert(std::string(c.name)).second);
    CHECK_FALSE(c.about.empty());
    if (c.built) continue;
    const Said said = command({std::string(c.name), "whatever", "--json", "-"});
    CHECK(said.code == cli::kBadInput);
    CHECK(said.out.empty());
    CHECK(said.err == "orrery: " + std::string(c.name) + " is not built yet\n");
  }
  CHECK(known == contract);
}

TEST_CASE("version and help are results") {
  CHECK(command({"--version"}).out == "orrery 0.1.0\n");
  const Said help = command({"--help"});
  CHECK(help.code == cli::kSuccess);
  for (const cli::CommandName& c : cli::command_names()) CHECK(help.out.find(c.name) != std::string::npos);
  const Said simulate = command({"simulate", "--help"});
  CHECK(simulate.code == cli::kSuccess);
  CHECK(simulate.out.find("--trace-ranks") != std::string::npos);
}

TEST_CASE("bad usage says what is wrong and leaves stdout empty") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "orrery: a command is missing; orrery --help lists them\n"},
      {{"simulte"}, "orrery: unknown command \"simulte\"; did you mean \"simulate\"?\n"},
      {{"simulate"}, "orrery: simulate: SCENARIO is required\n"},
      {{"simulate", "x.json", "--html", "page.html"}, "orrery: simulate: --html: not built yet\n"},
      {{"simulate", "x.json", "--openmetrics", "m.txt"}, "orrery: simulate: --openmetrics: not built yet\n"},
      {{"simulate", "x.json", "--trace-format", "perfetto"}, "orrery: simulate: --trace-format: \"perfetto\" is not built yet; Perfetto opens chrome\n"},
      {{"simulate", "x.json", "--set", "tp"}, "orrery: --set tp: expected PATH=VALUE\n"},
      {{"simulate", "/nonexistent/x.json"}, "orrery: /nonexistent/x.json: cannot be read: no such file or directory\n"},
      {{"whatif", "x.json"}, "orrery: whatif: nothing is changed; give --set, --alternative or --alternatives\n"},
      {{"catalog", "list", "gpus"}, "orrery: catalog list: unknown kind \"gpus\"; did you mean \"gpu\"?\n"},
      {{"catalog", "show", "dgx-h10"}, "orrery: catalog show: nothing is called \"dgx-h10\"; did you mean \"dgx-h100\"?\n"},
  };
  for (const auto& [arguments, message] : cases) {
    const Said said = command(arguments);
    CAPTURE(message);
    CHECK(said.code == cli::kBadInput);
    CHECK(said.out.empty());
    CHECK(said.err == message);
  }
}

TEST_CASE("ranks of a trace are a list of numbers and ranges") {
  CHECK(*cli::read_ranks("8,0,16-18,17") == std::vector<std::uint32_t>{0, 8, 16, 17, 18});
  for (const auto& [list, text] : std::vector<std::pair<std::string, std::string>>{
           {"", "--trace-ranks : \"\" is no rank and no range of ranks"},
           {"1,,2", "--trace-ranks 1,,2: \"\" is no rank and no range of ranks"},
           {"3-1", "--trace-ranks 3-1: \"3-1\" is no rank and no range of ranks"},
           {"-1", "--trace-ranks -1: \"-1\" is no rank and no range of ranks"},
           {"1x", "--trace-ranks 1x: \"1x\" is no rank and no range of ranks"},
           {"99999999999", "--trace-ranks 99999999999: \"99999999999\" is no rank and no range of ranks"},
           {"0-4294967295", "--trace-ranks 0-4294967295: more than 4096 ranks"},
           {"0-4000,5000-6000", "--trace-ranks 0-4000,5000-6000: more than 4096 ranks"}}) {
    const auto ranks = cli::read_ranks(list);
    CAPTURE(list);
    REQUIRE_FALSE(ranks);
    CHECK(ranks.error()[0].text == text);
  }
}

TEST_CASE("a trace shows the lowest rank of every stage unless told otherwise") {
  const auto ranks = [](const std::string& text) { return cli::stage_ranks(document::parse(text, "s").value()); };
  CHECK(ranks(R"({"parallelism": {"tp": 2, "pp": 4}, "cluster": {"nodes": 2, "node": {"gpus": 8}}})") == std::vector<std::uint32_t>{0, 4, 8, 12});
  CHECK(ranks(R"({"parallelism": {"tp": 2, "pp": 2, "order": ["pp", "tp", "cp", "ep", "dp"]}, "cluster": {"nodes": 1, "node": {"gpus": 8}}})") ==
        std::vector<std::uint32_t>{0, 1});
  CHECK(ranks(R"({"parallelism": {"tp": 3}, "cluster": {"nodes": 1, "node": {"gpus": 8}}})") == std::vector<std::uint32_t>{0});
}

TEST_CASE("simulate prints the table, and with --json - the report alone") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  const Said table = command({"simulate", path});
  CHECK(table.code == cli::kSuccess);
  CHECK(table.out.substr(0, 6) == "small:");
  CHECK(table.out.find("pipeline efficiency") != std::string::npos);
  const Said report = command({"simulate", path, "--json", "-", "--quiet"});
  CHECK(report.code == cli::kSuccess);
  CHECK(report.err.empty());
  CHECK(json(report.out).at("schema") == document::Value("orrery/report/1"));
  CHECK(json(report.out).at("engine").at("ranks") == document::Value(8));
}

TEST_CASE("folded and unfolded runs print the same report but for its engine member") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  document::Value folded = json(command({"simulate", path, "--json", "-"}).out), full = json(command({"simulate", path, "--json", "-", "--no-fold"}).out);
  CHECK(folded.at("engine").at("rank_classes").as_int() < full.at("engine").at("rank_classes").as_int());
  folded.erase("engine");
  full.erase("engine");
  CHECK(document::dump(folded) == document::dump(full));
}

TEST_CASE("--json FILE and --trace FILE are written, and the table still printed") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  const Said said = command({"simulate", path, "--json", folder.file("report.json"), "--trace", folder.file("trace.json"), "--trace-ranks", "0,2"});
  CHECK(said.code == cli::kSuccess);
  CHECK_FALSE(said.out.empty());
  CHECK(json(*document::read_file(folder.file("report.json"))).at("step").at("time_s").as_double() > 0);
  const document::Value trace = json(*document::read_file(folder.file("trace.json")));
  std::set<std::int64_t> ranks;
  std::set<std::string> phases;
  for (const document::Value& e : trace.at("traceEvents").items()) {
    ranks.insert(e.at("pid").as_int());
    phases.insert(e.at("ph").as_string());
  }
  CHECK(ranks == std::set<std::int64_t>{0, 2});
  CHECK(phases.count("X") + phases.count("C") + phases.count("M") == 3);
}

TEST_CASE("--timeline draws a lane per stage and a box per pass, with or without a trace") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall), picture = folder.file("timeline.svg");
  REQUIRE(command({"simulate", path, "--timeline", picture, "--quiet"}).code == cli::kSuccess);
  const std::string svg = *document::read_file(picture);
  CHECK(svg.find("<title>1f1b: 2 stages, 1 chunks per rank, 16 microbatches</title>") != std::string::npos);
  CHECK(svg.find(">stage 0</text>") != std::string::npos);
  CHECK(svg.find(">stage 1</text>") != std::string::npos);
  CHECK(svg.find(">stage 2</text>") == std::string::npos);
  // Two stages, 16 microbatches, forward and backward, and the end of the step on each.
  CHECK(std::count(svg.begin(), svg.end(), 'z') - std::count(svg.begin(), svg.end(), 'Z') >= 2 * 16 * 2 + 2);
  REQUIRE(command({"simulate", path, "--timeline", picture, "--trace", folder.file("trace.json"), "--quiet"}).code == cli::kSuccess);
  CHECK(*document::read_file(picture) == svg);
  CHECK(std::filesystem::exists(folder.file("trace.json")));
  CHECK(command({"simulate", path, "--timeline", "-"}).err == "orrery: --timeline -: a picture goes to a file; standard output is for the table or --json -\n");
  CHECK(command({"simulate", path, "--timeline", picture, "--trace", picture}).err == "orrery: --timeline and --trace both write " + picture + "\n");
  CHECK(command({"simulate", path, "--timeline", path}).err == "orrery: --timeline " + path + " would replace the scenario\n");
}

TEST_CASE("every schedule runs on a small job, and one with its list from a file beside the scenario") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  for (const char* settings : {"bfs 2", "zb_h1 1", "zb_h2 1", "zb_v 2", "v_half 2", "v_min 2", "dualpipe 1", "dualpipe_v 2", "interleaved_1f1b 2", "gpipe 1"}) {
    const std::string text = settings, name = text.substr(0, text.find(' ')), chunks = text.substr(text.find(' ') + 1);
    CAPTURE(name);
    const Said said = command({"simulate", path, "--set", "parallelism.schedule=" + name, "--set", "parallelism.vp=" + chunks, "--set", "parallelism.p2p=overlapped", "--json", "-"});
    REQUIRE(said.code == cli::kSuccess);
    const document::Value report = json(said.out);
    CHECK(report.at("scenario").at("parallelism").at("schedule") == document::Value(name));
    CHECK(report.at("throughput").at("pipeline_efficiency").as_double() > 0.5);
    CHECK(report.at("throughput").at("pipeline_efficiency_closed_form").as_double() <= 1);
  }
  std::ignore = folder.write("order.json", R"({"schema": "orrery/schedule/1", "orders": [["F0","F1","B0","B1"], ["F0","B0","F1","B1"]]})");
  const std::vector<std::string> listed = {"simulate", path, "--set", R"(parallelism.schedule={"file": "order.json"})", "--set", "parallelism.p2p=overlapped", "--set", "training.global_batch=4"};
  CHECK(command(listed).code == cli::kSuccess);
  std::ignore = folder.write("order.json", R"({"schema": "orrery/schedule/1", "orders": [["F0","F1","B0","B1"], ["B0","F0","F1","B1"]]})");
  const Said refused = command(listed);
  CHECK(refused.code == cli::kBadInput);
  CHECK(refused.err.find("/parallelism/schedule/file/orders/1/0: backward of microbatch 0 through chunk 0 comes before its forward") != std::string::npos);
}

TEST_CASE("a default trace has every stage, with arrows from sends to receives") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  REQUIRE(command({"simulate", path, "--trace", folder.file("trace.json"), "--quiet"}).code == cli::kSuccess);
  std::size_t starts = 0, ends = 0;
  const document::Value trace = json(*document::read_file(folder.file("trace.json")));
  for (const document::Value& e : trace.at("traceEvents").items()) {
    if (e.at("ph") == document::Value("s")) ++starts;
    if (e.at("ph") == document::Value("f")) ++ends;
  }
  CHECK(starts == ends);
  CHECK(starts == 2 * 16);  // 16 microbatches, an activation down and a gradient up
}

TEST_CASE("a rank that the job does not have is refused, and nothing is written") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  const Said said = command({"simulate", path, "--trace", folder.file("trace.json"), "--trace-ranks", "8", "--quiet"});
  CHECK(said.code == cli::kBadInput);
  CHECK(said.out.empty());
  CHECK(said.err == "orrery: --trace-ranks: there is no rank 8; the job has 8\n");
  CHECK_FALSE(std::filesystem::exists(folder.file("trace.json")));
}

TEST_CASE("overrides apply in order, and an impossible layout is refused with its place") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  const Said report = command({"simulate", path, "--set", "parallelism.tp=4", "--set", "/parallelism/tp=1", "--json", "-", "--quiet"});
  CHECK(report.code == cli::kSuccess);
  CHECK(json(report.out).at("scenario").at("parallelism").at("tp") == document::Value(1));
  const Said refused = command({"simulate", path, "--set", "parallelism.pp=3", "--json", "-"});
  CHECK(refused.code == cli::kBadInput);
  CHECK(refused.out.empty());
  CHECK(refused.err.find(path + ":/parallelism/dp: 8 GPUs are no whole number of replicas") != std::string::npos);
}

TEST_CASE("a job that does not fit ends with 1 and its complete report") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  const Said said = command({"memory", path, "--set", "cluster.node.gpu.memory_capacity_gib=8", "--json", "-", "--quiet"});
  CHECK(said.code == cli::kNo);
  CHECK(json(said.out).at("memory").at("fits") == document::Value(false));
  CHECK_FALSE(json(said.out).at("memory").at("advice").items().empty());
  CHECK(said.err.find("orrery: does not fit: rank ") == 0);
}

TEST_CASE("memory says what is the largest that fits, what would make a job fit, and draws the worst rank") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall), picture = folder.file("memory.svg");
  const Said fits = command({"memory", path, "--largest", "--timeline", picture});
  CHECK(fits.code == cli::kSuccess);
  CHECK(fits.out.find("largest that fits, all else equal\n  training.micro_batch") != std::string::npos);
  CHECK(fits.out.find("\n  training.sequence_length") != std::string::npos);
  const std::string svg = *document::read_file(picture);
  CHECK(svg.find("<title>activations</title>") != std::string::npos);
  CHECK(svg.find("tensors of rank ") != std::string::npos);
  // What is named as a cure is one: with it the job fits.
  const Said tight = command({"memory", path, "--set", "cluster.node.gpu.memory_capacity_gib=8"});
  CHECK(tight.code == cli::kNo);
  const std::string head = "changes with which it fits, cheapest first\n  ";
  const std::size_t at = tight.out.find(head);
  if (at == std::string::npos) {
    CHECK(tight.out.find("no one or two of the usual changes make it fit") != std::string::npos);
  } else {
    std::vector<std::string> arguments = {"memory", path, "--quiet", "--set", "cluster.node.gpu.memory_capacity_gib=8"};
    std::istringstream line(tight.out.substr(at + head.size(), tight.out.find('\n', at + head.size()) - at - head.size()));
    for (std::string word; line >> word && word.find('=') != std::string::npos;) arguments.insert(arguments.end(), {"--set", word});
    CHECK(command(arguments).code == cli::kSuccess);
  }
  // The same for a terminal, and for programs.
  const Said chart = command({"memory", path, "--chart"});
  CHECK(chart.out.find("tensors of rank 4 over the step\n") != std::string::npos);
  CHECK(chart.out.find("|PPPPPPPP") != std::string::npos);
  const document::Value all = json(command({"memory", path, "--chart", "--largest", "--json", "-", "--quiet"}).out);
  CHECK(all.at("memory").at("timeline").at("columns").items().size() == 200);
  CHECK(all.at("memory").at("timeline").at("peak_gib").as_double() > 0);
  REQUIRE(all.at("memory").at("largest").items().size() == 2);
  CHECK(all.at("memory").at("largest").items()[0].at("member") == document::Value("training.micro_batch"));
  CHECK(json(command({"memory", path, "--set", "cluster.node.gpu.memory_capacity_gib=8", "--json", "-", "--quiet"}).out).at("memory").at("changes").is_array());
  CHECK(command({"memory", path, "--timeline", "-"}).err == "orrery: --timeline -: a picture goes to a file; standard output is for the table or --json -\n");
  CHECK(command({"memory", path, "--timeline", path}).err == "orrery: --timeline " + path + " would replace the scenario\n");
}

TEST_CASE("too few events allowed is refused, with nothing on stdout") {
  const Folder folder;
  const Said said = command({"simulate", folder.write("small.json", kSmall), "--max-events", "10", "--json", "-", "--quiet"});
  CHECK(said.code == cli::kBadInput);
  CHECK(said.out.empty());
  CHECK(said.err.find("more than 10 events") != std::string::npos);
}

TEST_CASE("whatif compares alternatives in the order given, with the same bytes on one and two threads") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  const std::string more = folder.write("more.json", R"([{"name": "from a file", "set": {"/training/global_batch": 64}}])");
  std::vector<std::string> arguments = {"whatif", path, "--set", "parallelism.tp=4", "--alternative", "no pipeline", "--set", "parallelism.pp=1",
                                        "--set", "parallelism.tp=8", "--alternative", "impossible", "--set", "parallelism.pp=5",
                                        "--alternatives", more, "--json", "-", "--quiet"};
  const Said one = command(arguments);
  arguments.insert(arguments.end(), {"--threads", "2"});
  const Said two = command(arguments);
  CHECK(one.code == cli::kSuccess);
  CHECK(one.out == two.out);
  const document::Value report = json(one.out);
  const auto& alternatives = report.at("alternatives").items();
  REQUIRE(alternatives.size() == 4);
  CHECK(alternatives[0].at("name") == document::Value("parallelism.tp=4"));
  CHECK(alternatives[1].at("name") == document::Value("no pipeline"));
  CHECK(alternatives[1].at("report").at("scenario").at("parallelism").at("pp") == document::Value(1));
  CHECK(alternatives[1].at("report").at("scenario").at("parallelism").at("tp") == document::Value(8));
  CHECK(alternatives[2].at("report").is_null());
  CHECK_FALSE(alternatives[2].at("refused").items().empty());
  CHECK(alternatives[3].at("report").at("scenario").at("training").at("global_batch") == document::Value(64));
  CHECK(report.at("baseline").at("scenario").at("parallelism").at("tp") == document::Value(2));
  for (const document::Value& a : alternatives) {
    if (a.at("difference").is_null()) continue;
    double sum = 0;
    for (const document::Value& term : a.at("difference").items()) sum += term.at("difference_s").as_double();
    CHECK(sum == Approx(a.at("report").at("step").at("time_s").as_double() - report.at("baseline").at("step").at("time_s").as_double()).epsilon(1e-6));
  }
}

TEST_CASE("alternatives of a file are checked") {
  const Folder folder;
  const std::string path = folder.write("small.json", kSmall);
  const auto refusal = [&](const std::string& text) {
    const Said said = command({"whatif", path, "--alternatives", folder.write("a.json", text)});
    CHECK(said.code == cli::kBadInput);
    return said.err.substr(said.err.find("a.json"));
  };
  CHECK(refusal("{}") == "a.json: expected an array of {\"name\", \"set\"}\n");
  CHECK(refusal("[{}]") == "a.json:/0: expected {\"name\": NAME, \"set\": {PATH: VALUE, ...}}\n");
  CHECK(refusal(R"([{"name": 1, "set": {}}])") == "a.json:/0/name: expected a name\n");
  CHECK(refusal(R"([{"name": "x", "set": {}, "sett": 1}])") == "a.json:/0/sett: unknown member; known are name, set\n");
}

TEST_CASE("the catalogue lists and shows what scenarios can name") {
  const Said gpus = command({"catalog", "list", "gpu"});
  CHECK(gpus.code == cli::kSuccess);
  CHECK(("\n" + gpus.out).find("\nh100-sxm5-80gb\n") != std::string::npos);
  CHECK(command({"catalog", "list"}).out.find("node/dgx-h100\n") != std::string::npos);
  CHECK(json(command({"catalog", "list", "--json", "-"}).out).at("stack").is_array());
  const Said node = command({"catalog", "show", "dgx-h100"});
  CHECK(node.code == cli::kSuccess);
  CHECK(json(node.out).at("gpus") == document::Value(8));
  CHECK(command({"catalog", "show", "node/dgx-h100"}).out == node.out);
}

TEST_CASE("model show counts what the model is made of") {
  const Said said = command({"model", "show", "llama-3.1-8b", "--sequence", "8192", "--json", "-"});
  CHECK(said.code == cli::kSuccess);
  const document::Value m = json(said.out);
  CHECK(m.at("parameters") == document::Value(std::int64_t{8'030'261'248}));
  CHECK(m.at("flops_per_token").at("megatron").as_double() == 51'470'401'536.0);
  std::int64_t parameters = 0;
  for (const document::Value& l : m.at("layers").items()) parameters += l.at("count").as_int() * l.at("parameters").as_int();
  CHECK(parameters == 8'030'261'248);
  CHECK(command({"model", "show", "llama-3.1-8b"}).out.find("8030261248") != std::string::npos);
  CHECK(command({"model", "show", "llama-3.1-8"}).code == cli::kBadInput);
}

TEST_CASE("model show speaks of samples where there are no tokens, and names the conventions that say nothing of the family") {
  const std::string maps = command({"model", "show", "resnet-50"}).out;
  CHECK(maps.find("counts of one sample on one GPU, bf16\n") != std::string::npos);
  CHECK(maps.find("training GFLOP per sample\n  exact                                           24.535\n") != std::string::npos);
  CHECK(maps.find("formulas of decoders, which say nothing of this family: megatron, megatron_legacy, palm, six_n, torchtitan, narayanan\n") != std::string::npos);
  CHECK(command({"model", "show", "linear-1000-10"}).out.find("exact                                         0.000060\n") != std::string::npos);
  const std::string bert = command({"model", "show", "bert-base", "--sequence", "128"}).out;
  CHECK(bert.find("counts of one sequence of 128 tokens on one GPU, bf16\n") != std::string::npos);
  CHECK(bert.find("this family: megatron, megatron_legacy, torchtitan, narayanan\n") != std::string::npos);
  CHECK(command({"model", "show", "nemotron-h-8b"}).out.find("bf16, causal\n") != std::string::npos);
  CHECK(command({"model", "show", "llama-3.1-8b"}).out.find("say nothing") == std::string::npos);
}

TEST_CASE("schemas print, and the doctor finds the catalogue sound") {
  for (const std::string& name : document::schema_names()) {
    const Said said = command({"schema", name});
    CHECK(said.code == cli::kSuccess);
    CHECK(json(said.out).is_object());
  }
  CHECK(command({"schema", "scenari"}).code == cli::kBadInput);
  const Said doctor = command({"doctor"});
  CHECK(doctor.code == cli::kSuccess);
  CHECK(doctor.err.empty());
}
