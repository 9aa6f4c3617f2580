#include "eager/op.h"

#include <ATen/core/enum_tag.h>

#include <algorithm>

namespace torch_tpu {

namespace {

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

c10::TypePtr element_type_of(c10::TypePtr type) {
  while (true) {
    if (auto optional = type->cast<c10::OptionalType>()) {
      type = optional->getElementType();
    } else if (auto list = type->cast<c10::ListType>()) {
      type = list->getElementType();
    } else {
      return type;
    }
  }
}

Meaning meaning_of(const c10::Type& type) {
  switch (type.kind()) {
    case c10::TypeKind::ScalarTypeType:
      return Meaning::kScalarType;
    case c10::TypeKind::LayoutType:
      return Meaning::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return Meaning::kMemoryFormat;
    default:
      return Meaning::kPlain;
  }
}

}  // namespace

Op::Op(const c10::OperatorHandle& handle)
    : handle(handle),
      name(full_name(handle.operator_name())),
      check_numbers(number_check_of(name)) {
  for (const c10::Argument& each : handle.schema().arguments()) {
    c10::TypePtr type = element_type_of(each.type());
    Argument argument;
    argument.name = each.name();
    argument.written = each.alias_info() != nullptr && each.alias_info()->isWrite();
    writes_list |= argument.written && each.type()->kind() == c10::TypeKind::ListType;
    argument.meaning = meaning_of(*element_type_of(each.real_type()));
    argument.index = each.name() == "indices";
    if (type->kind() == c10::TypeKind::GeneratorType)
      generator = static_cast<int>(arguments.size());
    arguments.push_back(std::move(argument));
  }
  const auto& tags = handle.getTags();
  random = std::ranges::find(tags, at::Tag::nondeterministic_seeded) != tags.end();
}

}  // namespace torch_tpu
