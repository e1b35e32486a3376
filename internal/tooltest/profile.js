
;(function haftTestProfile(modules) {
  const { Session } = modules("node:inspector");
  const { SourceMap } = modules("node:module");
  const { writeFileSync } = modules("node:fs");
  const out = (process.env.HAFT_WORK || ".") + "/out/haft-test-profile";
  const session = new Session();
  session.connect();
  const post = (method, params) => {
    let got;
    session.post(method, params, (_, result) => { got = result; }); // which is at once, in the same thread
    return got;
  };
  post("Profiler.enable");
  post("Profiler.setSamplingInterval", { interval: 1000 });
  post("Profiler.start");
  globalThis[Symbol.for("haft.end")] = (source, mapping) => {
    const { profile } = post("Profiler.stop");
    const map = new SourceMap(mapping);
    const nodes = new Map(profile.nodes.map((n) => [n.id, n]));
    for (const n of profile.nodes) for (const child of n.children || []) nodes.get(child).parent = n;
    const own = profile.nodes.find((n) => n.callFrame.functionName === "haftTestProfile" || n.callFrame.url.endsWith(process.argv[1]));
    const place = (node) => {
      for (let n = node; n && own; n = n.parent) {
        if (n.callFrame.url !== own.callFrame.url || n.callFrame.lineNumber < 0) continue;
        const ticks = n === node && (n.positionTicks || []).sort((a, b) => b.ticks - a.ticks)[0];
        const at = map.findEntry(ticks ? ticks.line - 1 : n.callFrame.lineNumber, ticks ? 1e6 : n.callFrame.columnNumber);
        if (at.originalLine !== undefined) return String(at.originalLine + 1);
      }
      const f = node.callFrame;
      if (f.functionName === "(idle)") return "waiting";
      return (f.functionName || "(a function)") + " of " + (f.url.split("/").pop() || "Node.js");
    };
    const times = new Map();
    profile.samples.forEach((id, i) => {
      const where = place(nodes.get(id));
      times.set(where, (times.get(where) || 0) + profile.timeDeltas[i] / 1000);
    });
    writeFileSync(out, [...times].map(([where, ms]) => ms.toFixed(3) + " " + where + "\n").join(""));
  };
})(process.getBuiltinModule || require);
