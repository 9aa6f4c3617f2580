// A plugin with nothing in it, for the tests of Plugin::load: PJRT_FAKE says what is wrong with it.
#include <cstdlib>
#include <string_view>

#include "../../../csrc/pjrt/abi.h"

namespace {

void destroy_error(PJRT_Error_Destroy_Args*) {}
void error_message(PJRT_Error_Message_Args* args) {
  static constexpr std::string_view kText = "the fake plugin's own words";
  args->message = kText.data();
  args->message_size = kText.size();
}
PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  args->code = PJRT_Error_Code_FAILED_PRECONDITION;
  return nullptr;
}
PJRT_Error* initialize(PJRT_Plugin_Initialize_Args*) { return nullptr; }
PJRT_Error* refuse(PJRT_Plugin_Initialize_Args*) {
  static char error;
  return reinterpret_cast<PJRT_Error*>(&error);  // an error is opaque: any address will do
}

}  // namespace

extern "C" const PJRT_Api* GetPjrtApi() {
  // One table per kind, as a loaded plugin keeps its own.
  static PJRT_Api apis[5];
  const char* set = std::getenv("PJRT_FAKE");
  const std::string_view kind = set != nullptr ? set : "";
  if (kind == "null") return nullptr;
  const int index = kind == "major" ? 1 : kind == "old" ? 2 : kind == "bare" ? 3 : 4;
  PJRT_Api& api = apis[index];
  api.struct_size = sizeof(PJRT_Api);
  api.pjrt_api_version = {sizeof(PJRT_Api_Version), nullptr, 0, 200};
  api.PJRT_Error_Destroy = destroy_error;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_code;
  api.PJRT_Plugin_Initialize = initialize;
  if (kind == "major") api.pjrt_api_version.major_version = 1;
  if (kind == "old") {  // its table ends before PJRT_Client_Create
    api.pjrt_api_version.minor_version = 7;
    api.struct_size = offsetof(PJRT_Api, PJRT_Client_Create);
  }
  if (kind == "bare") api.struct_size = offsetof(PJRT_Api, PJRT_Error_Destroy);
  if (kind == "refuses") api.PJRT_Plugin_Initialize = refuse;
  return &api;
}
