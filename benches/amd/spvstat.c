// Compiles SPIR-V compute shaders with a Vulkan driver and prints the driver's own statistics; with
// -s the machine code, too. With Mesa's RADV and RADV_FORCE_FAMILY=navi10 (or polaris10, navi31) no
// GPU is needed: nothing is run.
//   usage: spvstat [-s] KERNEL.spv...
// One line a kernel: name, `subgroup=invocations`, then `statistic=value`, separated by blanks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#ifndef VK_KHR_cooperative_matrix // headers older than 1.3.255
#define VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR ((VkStructureType)1000506000)
typedef struct { VkStructureType sType; void *pNext; VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess; } VkPhysicalDeviceCooperativeMatrixFeaturesKHR;
#endif

#define MUST(call) do { VkResult r_ = (call); if (r_ != VK_SUCCESS) { fprintf(stderr, "%s: VkResult %d\n", #call, r_); exit(3); } } while (0)

static uint32_t *words(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    if (!f) { perror(path); exit(1); }
    fseek(f, 0, SEEK_END); *bytes = ftell(f); rewind(f);
    uint32_t *code = malloc(*bytes);
    if (fread(code, 1, *bytes, f) != *bytes) { perror(path); exit(1); }
    fclose(f);
    return code;
}

// The name of the entry point of the module (OpEntryPoint is opcode 15: model, id, name).
static const char *entry(const uint32_t *code, size_t bytes) {
    for (size_t at = 5; at < bytes / 4; at += code[at] >> 16) {
        if ((code[at] & 0xffff) == 15) return (const char *)(code + at + 3);
        if (code[at] >> 16 == 0) break;
    }
    return "main";
}

// The number of invocations of a subgroup.
static uint32_t lanes(VkDevice device, VkPipeline pipeline) {
    PFN_vkGetPipelineExecutablePropertiesKHR properties = (void *)vkGetDeviceProcAddr(device, "vkGetPipelineExecutablePropertiesKHR");
    VkPipelineInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, 0, pipeline};
    VkPipelineExecutablePropertiesKHR first = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
    uint32_t count = 1;
    properties(device, &info, &count, &first);
    return first.subgroupSize;
}

int main(int argc, char **argv) {
    int first = 1, machine_code = 0;
    if (first < argc && !strcmp(argv[first], "-s")) machine_code = 1, first++;
    VkApplicationInfo app = {VK_STRUCTURE_TYPE_APPLICATION_INFO, 0, "spvstat", 1, 0, 0, VK_API_VERSION_1_3};
    VkInstanceCreateInfo ici = {VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, 0, 0, &app};
    VkInstance instance; MUST(vkCreateInstance(&ici, 0, &instance));
    uint32_t n = 1; VkPhysicalDevice gpu;
    VkResult got = vkEnumeratePhysicalDevices(instance, &n, &gpu);
    if (n == 0 || (got != VK_SUCCESS && got != VK_INCOMPLETE)) { fprintf(stderr, "no adapter\n"); return 3; }
    uint32_t extensions = 0; vkEnumerateDeviceExtensionProperties(gpu, 0, &extensions, 0);
    VkExtensionProperties *all = calloc(extensions, sizeof *all); vkEnumerateDeviceExtensionProperties(gpu, 0, &extensions, all);
    const char *wanted[] = {"VK_KHR_pipeline_executable_properties", "VK_KHR_cooperative_matrix", "VK_KHR_16bit_storage", "VK_KHR_shader_float16_int8", "VK_KHR_vulkan_memory_model"};
    const char *names[8]; uint32_t enabled = 0; int matrices = 0;
    for (int w = 0; w < 5; w++) for (uint32_t e = 0; e < extensions; e++)
        if (!strcmp(all[e].extensionName, wanted[w])) { names[enabled++] = wanted[w]; if (w == 1) matrices = 1; }
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR coop = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR, 0, VK_TRUE, VK_FALSE};
    VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR exec = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR, matrices ? &coop : 0, VK_TRUE};
    VkPhysicalDeviceVulkan11Features v11 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &exec};
    VkPhysicalDeviceVulkan12Features v12 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, &v11};
    VkPhysicalDeviceVulkan13Features v13 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES, &v12};
    VkPhysicalDeviceFeatures2 f2 = {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v13};
    vkGetPhysicalDeviceFeatures2(gpu, &f2);
    float priority = 1; VkDeviceQueueCreateInfo q = {VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO, 0, 0, 0, 1, &priority};
    VkDeviceCreateInfo dci = {VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &f2, 0, 1, &q, 0, 0, enabled, names, 0};
    VkDevice device; MUST(vkCreateDevice(gpu, &dci, 0, &device));
    PFN_vkGetPipelineExecutableStatisticsKHR statistics = (void *)vkGetDeviceProcAddr(device, "vkGetPipelineExecutableStatisticsKHR");
    PFN_vkGetPipelineExecutableInternalRepresentationsKHR texts = (void *)vkGetDeviceProcAddr(device, "vkGetPipelineExecutableInternalRepresentationsKHR");
    VkDescriptorSetLayoutBinding bindings[32];
    for (int b = 0; b < 32; b++) bindings[b] = (VkDescriptorSetLayoutBinding){b, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, 0};
    VkDescriptorSetLayoutCreateInfo sci = {VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO, 0, 0, 32, bindings};
    VkDescriptorSetLayout set; MUST(vkCreateDescriptorSetLayout(device, &sci, 0, &set));
    VkDescriptorSetLayout sets[4] = {set, set, set, set};
    VkPushConstantRange push = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 128};
    VkPipelineLayoutCreateInfo lci = {VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO, 0, 0, 4, sets, 1, &push};
    VkPipelineLayout layout; MUST(vkCreatePipelineLayout(device, &lci, 0, &layout));
    int failed = 0;
    for (int i = first; i < argc; i++) {
        size_t bytes; uint32_t *code = words(argv[i], &bytes);
        VkShaderModuleCreateInfo mci = {VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, 0, 0, bytes, code};
        VkShaderModule module; MUST(vkCreateShaderModule(device, &mci, 0, &module));
        VkComputePipelineCreateInfo pci = {VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO, 0,
            VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR | (machine_code ? VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR : 0),
            {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO, 0, 0, VK_SHADER_STAGE_COMPUTE_BIT, module, entry(code, bytes), 0}, layout, 0, 0};
        VkPipeline pipeline; VkResult made = vkCreateComputePipelines(device, 0, 1, &pci, 0, &pipeline);
        if (made != VK_SUCCESS) { printf("%s: not compiled: VkResult %d\n", argv[i], made); failed = 1; continue; }
        VkPipelineExecutableInfoKHR info = {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, 0, pipeline, 0};
        uint32_t count = 0; statistics(device, &info, &count, 0);
        VkPipelineExecutableStatisticKHR *stats = calloc(count, sizeof *stats);
        for (uint32_t s = 0; s < count; s++) stats[s].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
        statistics(device, &info, &count, stats);
        printf("%s", argv[i]);
        printf(" subgroup=%u", lanes(device, pipeline));
        for (uint32_t s = 0; s < count; s++) {
            char name[256]; strncpy(name, stats[s].name, 255); name[255] = 0;
            for (char *c = name; *c; c++) if (*c == ' ') *c = '_';
            if (stats[s].format == VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR) printf(" %s=%g", name, stats[s].value.f64);
            else printf(" %s=%llu", name, (unsigned long long)stats[s].value.u64);
        }
        printf("\n");
        if (machine_code) {
            uint32_t parts = 0; texts(device, &info, &parts, 0);
            VkPipelineExecutableInternalRepresentationKHR *t = calloc(parts, sizeof *t);
            for (uint32_t p = 0; p < parts; p++) t[p].sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
            texts(device, &info, &parts, t);
            for (uint32_t p = 0; p < parts; p++) t[p].pData = malloc(t[p].dataSize);
            texts(device, &info, &parts, t);
            for (uint32_t p = 0; p < parts; p++) printf("---- %s\n%.*s\n", t[p].name, (int)t[p].dataSize, (char *)t[p].pData);
        }
    }
    return failed;
}
