// The only file that includes SQLite. One transaction per batch of rows, in the rollback journal's full synchronous mode: after a kill or a power cut
// the file holds what the last finished transaction left.
#include "orrery/search/store.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <unistd.h>

namespace orrery::search {

struct Store::Handle {
  sqlite3* db = nullptr;
  int lock = -1;
  Handle() = default;
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    sqlite3_close_v2(db);
    if (lock >= 0) ::close(lock);
  }
};

namespace {

constexpr int kApplication = 0x4f525259;  // "ORRY", in the file's header

tl::unexpected<Diagnostics> failed(const std::string& path, sqlite3* db, int code) {
  const int kind = code & 0xff;
  if (kind == SQLITE_NOTADB || kind == SQLITE_CORRUPT) return fail(path, "", "is no sweep store, or a damaged one; give another --store");
  if (kind == SQLITE_FULL) return fail(path, "", "no space is left; what is stored stays, and the same command goes on from there");
  if (kind == SQLITE_READONLY || kind == SQLITE_PERM) return fail(path, "", "cannot be written");
  return fail(path, "", fmt::format("cannot be used: {}", db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code)));
}

class Statement {
 public:
  Statement(sqlite3* db, const char* sql) { code_ = sqlite3_prepare_v2(db, sql, -1, &s_, nullptr); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(s_); }
  [[nodiscard]] int code() const { return code_; }
  void bind(int i, std::string_view text) { sqlite3_bind_text64(s_, i, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8); }
  void bind(int i, std::int64_t v) { sqlite3_bind_int64(s_, i, v); }
  void bind(int i, double v) { sqlite3_bind_double(s_, i, v); }
  void bind_null(int i) { sqlite3_bind_null(s_, i); }
  int step() { return code_ == SQLITE_OK ? sqlite3_step(s_) : code_; }
  void reset() { sqlite3_reset(s_); }
  [[nodiscard]] std::int64_t integer(int i) const { return sqlite3_column_int64(s_, i); }
  [[nodiscard]] std::string text(int i) const {
    const auto* data = sqlite3_column_text(s_, i);
    return data == nullptr ? std::string() : std::string(reinterpret_cast<const char*>(data), static_cast<std::size_t>(sqlite3_column_bytes(s_, i)));
  }

 private:
  sqlite3_stmt* s_ = nullptr;
  int code_ = SQLITE_OK;
};

int execute(sqlite3* db, const char* sql) { return sqlite3_exec(db, sql, nullptr, nullptr, nullptr); }

constexpr const char* kTables = R"(
CREATE TABLE IF NOT EXISTS sweep (definition TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rows (point INTEGER PRIMARY KEY, outcome TEXT NOT NULL, reason TEXT, scenario_hash TEXT, step_s REAL,
  tokens_per_s_per_gpu REAL, mfu REAL, peak_gib REAL, price_per_million_tokens REAL, row TEXT NOT NULL);
)";

/// Members of two definitions that are not alike.
std::string differing(const document::Value& a, const document::Value& b) {
  std::string names;
  for (const auto& [name, value] : a.members())
    if (b.at(name) != value) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "a member that this version does not know" : names;
}

Result<document::Value> stored_definition(const std::string& path, sqlite3* db) {
  Statement s(db, "SELECT definition FROM sweep");
  const int code = s.step();
  if (code != SQLITE_ROW) return code == SQLITE_DONE || code == SQLITE_ERROR ? Result<document::Value>(fail(path, "", "is no sweep store")) : Result<document::Value>(failed(path, db, code));
  auto value = document::parse(s.text(0), path);
  if (!value || !value->is_object() || value->at("schema") != document::Value("orrery/sweep/1")) return fail(path, "", "is no sweep store, or a damaged one; give another --store");
  return value;
}

}  // namespace

Store::Store(std::string path) : path_(std::move(path)), handle_(std::make_unique<Handle>()) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(const std::string& path, const document::Value& definition) {
  Store store(path);
  // SQLite lets two writers take turns; a sweep must not be run twice at once.
  store.handle_->lock = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (store.handle_->lock < 0) return fail(path, "", fmt::format("cannot be written: {}", std::strerror(errno)));
  if (::flock(store.handle_->lock, LOCK_EX | LOCK_NB) != 0) return fail(path, "", "another process writes to this store");
  sqlite3*& db = store.handle_->db;
  int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  if (code != SQLITE_OK) return failed(path, db, code);
  sqlite3_busy_timeout(db, 60'000);  // readers hold it for moments
  std::int64_t application = 0, tables = 0;
  {
    Statement id(db, "PRAGMA application_id");
    if (code = id.step(); code != SQLITE_ROW) return failed(path, db, code);
    application = id.integer(0);
    Statement count(db, "SELECT count(*) FROM sqlite_master");
    if (code = count.step(); code != SQLITE_ROW) return failed(path, db, code);
    tables = count.integer(0);
  }
  if (application != kApplication && (application != 0 || tables != 0)) return fail(path, "", "is a database of another program; give another --store");
  if (application == 0) {
    code = execute(db, "BEGIN IMMEDIATE");
    if (code == SQLITE_OK) code = execute(db, fmt::format("PRAGMA application_id = {}", kApplication).c_str());
    if (code == SQLITE_OK) code = execute(db, kTables);
    if (code == SQLITE_OK) {
      Statement s(db, "INSERT INTO sweep VALUES (?)");
      s.bind(1, document::dump(definition, -1));
      code = s.step() == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(db);
    }
    if (code == SQLITE_OK) code = execute(db, "COMMIT");
    if (code != SQLITE_OK) return failed(path, db, code);
  }
  const auto found = stored_definition(path, db);
  if (!found) return fail(found.error());
  if (*found != definition) return fail(path, "", fmt::format("holds another sweep (different: {}); give another --store", differing(*found, definition)));
  store.definition_ = *found;
  return store;
}

Result<Store> Store::read(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return fail(path, "", "there is no such file");
  Store store(path);
  sqlite3*& db = store.handle_->db;
  const int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr);
  if (code != SQLITE_OK) return failed(path, db, code);
  sqlite3_busy_timeout(db, 60'000);
  auto definition = stored_definition(path, db);
  if (!definition) return fail(definition.error());
  store.definition_ = std::move(*definition);
  return store;
}

Result<std::vector<std::uint64_t>> Store::stored() const {
  Statement s(handle_->db, "SELECT point FROM rows ORDER BY point");
  std::vector<std::uint64_t> list;
  int code = s.step();
  for (; code == SQLITE_ROW; code = s.step()) list.push_back(static_cast<std::uint64_t>(s.integer(0)));
  if (code != SQLITE_DONE) return failed(path_, handle_->db, code);
  return list;
}

Result<bool> Store::add(std::span<const PointRow> rows) {
  sqlite3* db = handle_->db;
  int code = execute(db, "BEGIN IMMEDIATE");
  if (code == SQLITE_OK) {
    Statement s(db, "INSERT OR IGNORE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    code = s.code();
    for (const PointRow& row : rows) {
      if (code != SQLITE_OK) break;
      s.bind(1, static_cast<std::int64_t>(row.index));
      s.bind(2, to_string(row.outcome));
      if (row.reason.empty()) s.bind_null(3); else s.bind(3, row.reason);
      const document::Value& hash = row.json.at("scenario_hash");
      if (hash.is_string()) s.bind(4, hash.as_string()); else s.bind_null(4);
      int column = 5;
      for (const char* name : {"step_s", "tokens_per_s_per_gpu", "mfu", "peak_gib", "price_per_million_tokens"}) {
        const document::Value& v = row.json.at(name);
        if (v.is_number()) s.bind(column, v.as_double()); else s.bind_null(column);
        ++column;
      }
      s.bind(10, document::dump(row.json, -1));
      code = s.step() == SQLITE_DONE ? SQLITE_OK : sqlite3_extended_errcode(db);
      s.reset();
    }
  }
  if (code == SQLITE_OK) code = execute(db, "COMMIT");
  if (code == SQLITE_OK) return true;
  const auto problem = failed(path_, db, code);
  execute(db, "ROLLBACK");
  return problem;
}

Result<bool> Store::each(const std::function<bool(const std::string&)>& take) const {
  Statement s(handle_->db, "SELECT row FROM rows ORDER BY point");
  int code = s.step();
  for (; code == SQLITE_ROW; code = s.step())
    if (!take(s.text(0))) return true;
  if (code != SQLITE_DONE) return failed(path_, handle_->db, code);
  return true;
}

}  // namespace orrery::search
