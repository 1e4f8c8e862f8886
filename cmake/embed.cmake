# cmake -DOUT=file.cpp -DFOLDER=folder -P embed.cmake: the texts of runtime/tool/report/assets as the strings that
# runtime/tool/report/assets.h declares.
set(code "// Made by cmake/embed.cmake.\n#include \"runtime/tool/report/assets.h\"\n\nnamespace fusec::tool {\n\n")
foreach(pair "kReportHtml;report.html" "kReportStyle;report.css" "kReportScript;report.js")
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ "${FOLDER}/${file}" text)
  string(APPEND code "const char ${name}[] = R\"fusec(${text})fusec\";\n\n")
endforeach()
file(WRITE "${OUT}" "${code}}  // namespace fusec::tool\n")
