"use strict";
for (const table of document.querySelectorAll("table.sorted")) {
  new DataTable(table, {
    paging: false,
    order: [],
    autoWidth: false,
    layout: { topStart: "search", topEnd: null, bottomStart: "info", bottomEnd: null },
    language: {
      search: "Search",
      info: "rows: _TOTAL_",
      infoEmpty: "no rows",
      infoFiltered: "of _MAX_",
      zeroRecords: "Nothing matches.",
    },
  });
}
