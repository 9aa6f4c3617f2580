// The part of the PJRT C ABI that torch_tpu calls, declared for itself: layouts are those of API
// 0.90, and every later minor version only appends to them. Nothing here allocates or runs.
#pragma once

#include "abi_args.h"

// A function of the table, named after itself.
#define PJRT_FN(name) PJRT_Error* (*name)(name##_Args*)

// The table that GetPjrtApi() returns. The order is the ABI; void* marks what we don't call.
// Only what lies within the plugin's struct_size exists, so call through call.h, which looks.
struct PJRT_Api {
  size_t struct_size;
  PJRT_Extension_Base* extension_start;
  PJRT_Api_Version pjrt_api_version;

  void (*PJRT_Error_Destroy)(PJRT_Error_Destroy_Args*);
  void (*PJRT_Error_Message)(PJRT_Error_Message_Args*);
  PJRT_FN(PJRT_Error_GetCode);

  PJRT_FN(PJRT_Plugin_Initialize);
  void* PJRT_Plugin_Attributes;

  PJRT_FN(PJRT_Event_Destroy);
  PJRT_FN(PJRT_Event_IsReady);
  void* PJRT_Event_Error;
  PJRT_FN(PJRT_Event_Await);
  PJRT_FN(PJRT_Event_OnReady);

  PJRT_FN(PJRT_Client_Create);
  PJRT_FN(PJRT_Client_Destroy);
  PJRT_Error* (*PJRT_Client_PlatformName)(PJRT_Client_String_Args*);
  void* PJRT_Client_ProcessIndex;
  PJRT_Error* (*PJRT_Client_PlatformVersion)(PJRT_Client_String_Args*);
  void* PJRT_Client_Devices;
  PJRT_FN(PJRT_Client_AddressableDevices);
  void* PJRT_Client_LookupDevice;
  void* PJRT_Client_LookupAddressableDevice;
  void* PJRT_Client_AddressableMemories;
  PJRT_FN(PJRT_Client_Compile);
  void* PJRT_Client_DefaultDeviceAssignment;
  PJRT_FN(PJRT_Client_BufferFromHostBuffer);

  PJRT_FN(PJRT_DeviceDescription_Id);
  void* PJRT_DeviceDescription_ProcessIndex;
  PJRT_FN(PJRT_DeviceDescription_Attributes);
  PJRT_Error* (*PJRT_DeviceDescription_Kind)(PJRT_DeviceDescription_String_Args*);
  void* PJRT_DeviceDescription_DebugString;
  PJRT_Error* (*PJRT_DeviceDescription_ToString)(PJRT_DeviceDescription_String_Args*);

  PJRT_FN(PJRT_Device_GetDescription);
  void* PJRT_Device_IsAddressable;
  void* PJRT_Device_LocalHardwareId;
  void* PJRT_Device_AddressableMemories;
  void* PJRT_Device_DefaultMemory;
  PJRT_FN(PJRT_Device_MemoryStats);

  void* PJRT_Memory_Id;
  void* PJRT_Memory_Kind;
  void* PJRT_Memory_DebugString;
  void* PJRT_Memory_ToString;
  void* PJRT_Memory_AddressableByDevices;

  PJRT_FN(PJRT_Executable_Destroy);
  void* PJRT_Executable_Name;
  void* PJRT_Executable_NumReplicas;
  void* PJRT_Executable_NumPartitions;
  PJRT_FN(PJRT_Executable_NumOutputs);
  void* PJRT_Executable_SizeOfGeneratedCodeInBytes;
  void* PJRT_Executable_GetCostAnalysis;
  void* PJRT_Executable_OutputMemoryKinds;
  PJRT_FN(PJRT_Executable_OptimizedProgram);
  PJRT_FN(PJRT_Executable_Serialize);

  PJRT_FN(PJRT_LoadedExecutable_Destroy);
  PJRT_FN(PJRT_LoadedExecutable_GetExecutable);
  void* PJRT_LoadedExecutable_AddressableDevices;
  void* PJRT_LoadedExecutable_Delete;
  void* PJRT_LoadedExecutable_IsDeleted;
  PJRT_FN(PJRT_LoadedExecutable_Execute);
  PJRT_FN(PJRT_Executable_DeserializeAndLoad);
  void* PJRT_LoadedExecutable_Fingerprint;

  PJRT_FN(PJRT_Buffer_Destroy);
  PJRT_FN(PJRT_Buffer_ElementType);
  PJRT_FN(PJRT_Buffer_Dimensions);
  void* PJRT_Buffer_UnpaddedDimensions;
  void* PJRT_Buffer_DynamicDimensionIndices;
  PJRT_FN(PJRT_Buffer_GetMemoryLayout);
  PJRT_FN(PJRT_Buffer_OnDeviceSizeInBytes);
  PJRT_FN(PJRT_Buffer_Device);
  void* PJRT_Buffer_Memory;
  void* PJRT_Buffer_Delete;
  PJRT_FN(PJRT_Buffer_IsDeleted);
  PJRT_FN(PJRT_Buffer_CopyToDevice);
  PJRT_FN(PJRT_Buffer_ToHostBuffer);
  PJRT_FN(PJRT_Buffer_IsOnCpu);
  PJRT_FN(PJRT_Buffer_ReadyEvent);
  PJRT_FN(PJRT_Buffer_UnsafePointer);
  void* PJRT_Buffer_IncreaseExternalReferenceCount;
  void* PJRT_Buffer_DecreaseExternalReferenceCount;
  void* PJRT_Buffer_OpaqueDeviceMemoryDataPointer;

  void* PJRT_CopyToDeviceStream_Destroy;
  void* PJRT_CopyToDeviceStream_AddChunk;
  void* PJRT_CopyToDeviceStream_TotalBytes;
  void* PJRT_CopyToDeviceStream_GranuleSize;
  void* PJRT_CopyToDeviceStream_CurrentBytes;

  PJRT_FN(PJRT_TopologyDescription_Create);
  PJRT_FN(PJRT_TopologyDescription_Destroy);
  void* PJRT_TopologyDescription_PlatformName;
  void* PJRT_TopologyDescription_PlatformVersion;
  PJRT_FN(PJRT_TopologyDescription_GetDeviceDescriptions);
  void* PJRT_TopologyDescription_Serialize;
  void* PJRT_TopologyDescription_Attributes;

  PJRT_FN(PJRT_Compile);

  void* PJRT_Executable_OutputElementTypes;
  void* PJRT_Executable_OutputDimensions;
  void* PJRT_Buffer_CopyToMemory;
  void* PJRT_Client_CreateViewOfDeviceBuffer;
  void* PJRT_Executable_Fingerprint;
  void* PJRT_Client_TopologyDescription;
  PJRT_FN(PJRT_Executable_GetCompiledMemoryStats);
};

#undef PJRT_FN
