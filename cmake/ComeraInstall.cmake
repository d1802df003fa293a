include(CMakePackageConfigHelpers)

get_property(libraries GLOBAL PROPERTY COMERA_LIBRARIES)
install(TARGETS ${libraries} EXPORT comeraTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(TARGETS comera RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
# Apache Arrow's library from a folder goes with the program.
if(COMERA_ARROW)
  install(FILES ${arrow_libraries} DESTINATION ${CMAKE_INSTALL_LIBDIR}/comera COMPONENT program)
  file(RELATIVE_PATH arrow_from_program ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR}/comera)
  set_target_properties(comera PROPERTIES INSTALL_RPATH "$ORIGIN/${arrow_from_program}")
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${COMERA_ARROW})
endif()
foreach(folder kernels batches tensorized model optim distributed storage data checkpoints recipes reports training exchange)
  install(DIRECTORY ${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/comera COMPONENT development
    FILES_MATCHING PATTERN "*.h")
endforeach()
install(DIRECTORY recipes/ DESTINATION ${CMAKE_INSTALL_DATADIR}/comera/recipes COMPONENT program
  FILES_MATCHING PATTERN "*.toml")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/comera RENAME copyright COMPONENT program)
# Manual pages and completions, which the build writes with the program itself. Debian's zsh looks in
# vendor-completions, others in site-functions.
set(manual ${PROJECT_BINARY_DIR}/manual)
install(DIRECTORY ${manual}/man/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program OPTIONAL)
install(FILES ${manual}/bash-completion/completions/comera
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program OPTIONAL)
foreach(folder site-functions vendor-completions)
  install(FILES ${manual}/zsh/site-functions/_comera
    DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder} COMPONENT program OPTIONAL)
endforeach()
# What --help names: docs/guide/finetuning.md and so on.
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/comera COMPONENT program)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/comera COMPONENT program
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libcomera-dev RENAME copyright COMPONENT development)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/comera)
install(EXPORT comeraTargets NAMESPACE comera:: DESTINATION ${config_dir} COMPONENT development)
configure_package_config_file(cmake/comeraConfig.cmake.in
  ${PROJECT_BINARY_DIR}/comeraConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/comeraConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/comeraConfig.cmake ${PROJECT_BINARY_DIR}/comeraConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/ComeraDependencies.cmake
  DESTINATION ${config_dir} COMPONENT development)

include(ComeraPackage)
