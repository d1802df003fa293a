# Debian packages: cpack --config build/release/CPackConfig.cmake -B build/package
#   comera          the program and its recipes
#   libcomera-dev   headers and static libraries, for find_package(comera)
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME comera)
set(CPACK_PACKAGE_VENDOR "The authors of comera")
set(CPACK_PACKAGE_CONTACT "The authors of comera <comera@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)

set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON) # the libraries that it was linked with
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME comera)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
  "Pretraining of BERT-like and CodeBERT-like encoders whose linear layers are\ntensor trains and whose embedding is a tensor-train matrix: tokenizer, data,\npretraining, fine-tuning, checkpoints, models for other programs.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libcomera-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SHLIBDEPS OFF) # static libraries have none
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "pkgconf, libfmt-dev, libcli11-dev, libtomlplusplus-dev, libhdf5-dev, zlib1g-dev, libzstd-dev, libsentencepiece-dev, nlohmann-json3-dev, libdnnl-dev, libopenblas-openmp-dev, libopenmpi-dev")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
  "Headers and static libraries of comera, which pretrains encoders with\ntensor-compressed weights, for find_package(comera).")
include(CPack)
