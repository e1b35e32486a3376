
;((modules) => {
  const { Session } = modules("node:inspector");
  const { SourceMap } = modules("node:module");
  const { writeFileSync } = modules("node:fs");
  const out = (process.env.HAFT_WORK || ".") + "/out/haft-test-lines";
  const session = new Session();
  session.connect();
  const haftTestPost = (method, params) => {
    let got;
    session.post(method, params, (_, result) => { got = result; }); // which is at once, in the same thread
    return got;
  };
  haftTestPost("Profiler.enable");
  haftTestPost("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  globalThis[Symbol.for("haft.end")] = (source, mapping) => {
    const scripts = haftTestPost("Profiler.takePreciseCoverage").result;
    const script = scripts.find((s) => s.functions.some((f) => f.functionName === "haftTestPost"));
    const map = new SourceMap(mapping);
    const ranges = script.functions.filter((f) => f.ranges[0].startOffset > 0).flatMap((f) => f.ranges);
    // Places in functions are those that are not in the function around all others.
    const places = (restrictToFunction) => {
      const start = { scriptId: script.scriptId, lineNumber: 0, columnNumber: 0 };
      return haftTestPost("Debugger.getPossibleBreakpoints", { start, restrictToFunction }).locations;
    };
    const key = (place) => place.lineNumber + ":" + place.columnNumber;
    const begins = [0];
    for (let i = source.indexOf("\n"); i >= 0; i = source.indexOf("\n", i + 1)) begins.push(i + 1);
    haftTestPost("Debugger.enable");
    const outside = new Set(places(true).map(key));
    const ran = new Map();
    for (const place of places(false)) {
      if (place.type === "return" || outside.has(key(place))) continue; // a return is the end of its statement
      const at = begins[place.lineNumber] + place.columnNumber;
      let inner; // is not there in functions that were never called
      for (const r of ranges) {
        if (r.startOffset <= at && at < r.endOffset && (!inner || r.endOffset - r.startOffset < inner.endOffset - inner.startOffset)) inner = r;
      }
      const from = map.findEntry(place.lineNumber, place.columnNumber);
      const n = from.originalLine + 1;
      if (n > 1 || from.originalColumn > 0) ran.set(n, ran.get(n) || (inner !== undefined && inner.count > 0));
    }
    const list = (lines) => lines.map(([n]) => n).join(" ");
    writeFileSync(out, "= " + list([...ran]) + "\n" + list([...ran].filter(([, did]) => did)) + "\n");
  };
})(process.getBuiltinModule || require);
