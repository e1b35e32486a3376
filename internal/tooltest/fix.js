
;((seed, now) => {
  if (seed !== null) {
    let state = seed >>> 0;
    Math.random = () => { // mulberry32
      state = (state + 0x6d2b79f5) | 0;
      let t = Math.imul(state ^ (state >>> 15), 1 | state);
      t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
      return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
  }
  if (now !== null) {
    const Real = Date;
    const Fixed = function (...args) {
      if (!new.target) return new Real(now).toString();
      return Reflect.construct(Real, args.length ? args : [now], new.target);
    };
    Fixed.prototype = Real.prototype;
    Fixed.parse = Real.parse;
    Fixed.UTC = Real.UTC;
    Fixed.now = () => now;
    (globalThis as any).Date = Fixed;
  }
})({{SEED}}, {{TIME}});
