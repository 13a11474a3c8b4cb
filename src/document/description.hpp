#pragma once
// The one description of a document type. Parsing (check.cpp), defaults (defaults.cpp), --set paths (overrides.cpp), the JSON Schema
// (schema.cpp) and the reference page (reference.cpp) are five readers of these tables, so they cannot disagree.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "orrery/document/value.hpp"

namespace orrery::document {

struct Member;
struct Variant;

/// A word that a string member may hold. One that is not built yet is known to the parser and refused as such.
struct Choice {
  std::string name;
  bool built = true;
};

/// What a value may be.
struct Type {
  enum class Kind : std::uint8_t {
    kBool,
    kInteger,
    kNumber,
    kString,
    kChoice,     ///< one of `choices`
    kObject,     ///< `members`
    kTagged,     ///< an object whose string member `tag` names one of `variants`
    kArray,      ///< of parts[0], `shortest` to `longest` items
    kMap,        ///< an object with any member names, each value parts[0]
    kEither,     ///< one of `parts`, told apart by their JSON kind
    kReference,  ///< a document of another kind: catalogue name, path or object
    kAny,
  };
  Kind kind = Kind::kAny;
  double low = 0, high = 0;   ///< numbers: inclusive bounds,
  bool above_low = false;     ///< or exclusive below
  std::size_t shortest = 0, longest = SIZE_MAX;
  bool all_distinct = false;  ///< array: no item twice
  std::vector<Choice> choices;
  std::vector<Member> members;
  bool open = false;          ///< object: readers ignore members they do not know (reports)
  bool just_one = false;      ///< object: exactly one of the members
  bool just_false = false;    ///< boolean: true is no value of the format
  std::vector<Type> parts;
  std::string tag;
  std::string tag_default;    ///< tagged: the variant where the tag is not stated; empty: it has to be
  std::vector<Variant> variants;
  std::string reference;      ///< the kind of document
  std::string shared_name;    ///< object used in many places: the reference page tells its members once, under this name
  bool built = true;          ///< false: refused as "not built yet" wherever it is chosen

  [[nodiscard]] Type distinct() const;
};

struct Variant {
  std::string name;
  std::vector<Member> members;
  std::string doc;
  bool built = true;
};

/// A member of an object. Built by member() and the functions below it, read as a table row.
struct Member {
  std::string name;
  Type type;
  std::string doc;
  bool is_required = false;
  Value fallback;                  ///< the schema's default; null: none, "not stated" stays null
  std::string fallback_text;       ///< how the reference page tells the default where no constant does
  std::string stack_default;       ///< name in the stack's "defaults" that comes before the schema's default
  std::vector<Value> built_values; ///< where not empty: all others are known but not built yet

  Member& required() { is_required = true; return *this; }
  Member& otherwise(Value v) { fallback = std::move(v); return *this; }
  Member& otherwise_text(std::string text) { fallback_text = std::move(text); return *this; }
  Member& from_stack(std::string stack_member) { stack_default = std::move(stack_member); return *this; }
  Member& built(std::vector<Value> values) { built_values = std::move(values); return *this; }
  Member& not_built() { type.built = false; return *this; }
};

inline constexpr std::int64_t kLargestInteger = 9007199254740992;  ///< 2^53: every reader of JSON holds integers up to it exactly
inline constexpr double kLargestNumber = 1e18;

Type boolean();
Type just_false();                            ///< false beside words: "false | bulk | pipelined"
Type integer(std::int64_t low = 1, std::int64_t high = kLargestInteger);
Type number(double low = 0, double high = kLargestNumber);
Type positive(double high = kLargestNumber);  ///< a number above 0
Type fraction();                              ///< a number from 0 to 1
Type text();
Type choice(std::vector<Choice> choices);
Type object(std::vector<Member> members);
Type just_one_of(std::vector<Member> members);
Type tagged(std::string tag, std::vector<Variant> variants);
Type array(Type item, std::size_t shortest = 0, std::size_t longest = SIZE_MAX);
Type map(Type value);
Type either(std::vector<Type> parts);
Type reference(std::string kind);
Type any();
Type open_object(std::vector<Member> members);
Member member(std::string name, Type type, std::string doc);
Type not_built(Type type);

/// The kinds that `load` reads, and the folder under configs/ that holds each ("" for the scenario).
struct DocumentKind {
  std::string_view name;    ///< "gpu"
  std::string_view folder;  ///< "gpus"
  std::string_view title;   ///< "a GPU", for messages and the reference page
  const Type& (*type)();
  bool input;               ///< parsed by us; false: only written (its schema is shipped)
};
const std::vector<DocumentKind>& document_kinds();
const DocumentKind& document_kind(std::string_view name);

/// Members of every variant, a name once: what a document laid over another may state before the tag is known.
std::vector<Member> members_of_all(const std::vector<Variant>& variants);

const Type& scenario_type();
const Type& model_type();
const Type& gpu_type();
const Type& node_type();
const Type& fabric_type();
const Type& stack_type();
const Type& profile_type();
const Type& measurements_type();
const Type& schedule_type();
const Type& report_type();
const Type& collective_table_type();
const Type& score_type();
const Type& run_type();

/// Members that every document starts with: "schema", and "extends" where `can_extend`.
std::vector<Member> document_members(std::string_view kind, bool can_extend, std::vector<Member> rest);
/// "sources", "unconfirmed" and "notes": whence a catalogue file's numbers come.
std::vector<Member> with_sources(std::vector<Member> members);

/// The member of an object, tagged object or alternative that has this name, or nullptr.
const Member* find_member(const std::vector<Member>& members, std::string_view name);

}  // namespace orrery::document
