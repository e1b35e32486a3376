package review_test

import (
	"strings"
	"testing"

	"haft"
	"haft/internal/review"
	"haft/internal/skiptest"
)

// jsEvasions are ways to reach what is dangerous without saying so.
var jsEvasions = []string{
	`import("child_process").then((c) => c.execSync(x))`,
	`import { exec } from "child_process"; export { exec as run }`,
	`function f(process) { return process } send(process)`,
	`const process = globalThis.process; send(process)`,
	`import process from "node:process"; send(process)`,
	`const { process } = globalThis; send(process)`,
	`process.getBuiltinModule("child_process").execSync(x)`,
	`module.require("child_process").execSync(x)`,
	`require.main.require("child_process").execSync(x)`,
	`require.call(null,"child_process").execSync(x)`,
	`require.apply(null,["child_process"]).execSync(x)`,
	`Reflect.apply(require,null,["child_process"]).execSync(x)`,
	`["child_process"].map(require)[0].execSync(x)`,
	`[require][0]("child_process").execSync(x)`,
	`const o={r:require}; o.r("child_process").execSync(x)`,
	`require.bind(null,"child_process")().execSync(x)`,
	`arguments[1]("child_process").execSync(x)`,
	`(()=>arguments[1])()("child_process").execSync(x)`,
	`const [,r]=arguments; r("child_process").execSync(x)`,
	`function f(r){return r("child_process")} f(require).execSync(x)`,
	`import {Module} from "node:module"; new Module("x").require("child_process").execSync(x)`,
	`import M from "node:module"; M.prototype.require.call(module,"child_process")`,
	`import M from "node:module"; M.register("data:text/javascript,1")`,
	`import M,{createRequire as c} from "node:module"; c("/")("child_process").execSync(x)`,
	`import("DATA:text/javascript,1")`,
	`import(" data:text/javascript,1")`,
	`import("da\tta:text/javascript,1")`,
	`export * from "child_process"`,
	`export {execSync as run} from "node:child_process"`,
	`import {"execSync" as run} from "node:child_process"; run(x)`,
	`export default require("child_process").execSync`,
	`const c=require("child_process"); const go=(f,a)=>f(a); go(c.execSync,x)`,
	`const {execSync:e="",...rest}=require("child_process"); e(x)`,
	`const {...rest}=require("child_process"); rest.execSync(x)`,
	`const c={...require("child_process")}; c.execSync(x)`,
	`const c=Object.assign({},require("child_process")); c.execSync(x)`,
	`const c=require("child_process"); Reflect.get(c,"execSync")(x)`,
	`const c=require("child_process"); c.execSync.call(c,x)`,
	`const c=require("child_process"); Reflect.apply(c.execSync,c,[x])`,
	`const c=require("child_process"); class A{ #e=c.execSync; go(x){return this.#e(x)} }`,
	`const c=require("child_process"); c.spawn(x, {shell:true})`,
	`const c=require("child_process"); c.spawn("bash", ["-lc", x])`,
	"const c=require(\"child_process\"); c.execSync`ls`",
	`const c=require("child_process"); for (const f of [c.execSync]) f(x)`,
	`const c=require("child_process"); const f=k=>c[k]; f("execSync")(x)`,
	`import * as c from "child_process"; c["exec"+"Sync"](x)`,
	`globalThis[k](x)`,
	`Object.values(globalThis)`,
	`Object.getOwnPropertyDescriptor(globalThis,"ev"+k).value(x)`,
	`Reflect.get(globalThis,k)(x)`,
	`for (const k of Object.keys(globalThis)) globalThis[k]`,
	`const g=[globalThis]; g[0][k](x)`,
	`const f=g=>g[k](x); f(globalThis)`,
	`const f=(g=globalThis)=>g[k](x); f()`,
	`new Proxy(globalThis,{})[k](x)`,
	`const {[k]:e}=globalThis; e(x)`,
	`const {...g}=globalThis; g[k](x)`,
	`const g={...globalThis}; g[k](x)`,
	`(function(){return this})().eval(x)`,
	`(function(){return this})()[k](x)`,
	`function g(){return this} g()[k](x)`,
	`function g(){return this[k](x)} g()`,
	`var self2=(function(){return this}).call(null); self2.process.binding("x")`,
	`function f(){ const t=this; return t.process.binding("x")} f()`,
	`with(globalThis){ f(x) }`,
	`with(process){ binding("x") }`,
	`(()=>{}).constructor("return 1")()`,
	`Math.max.constructor("return 1")()`,
	`const f=()=>{}; f.constructor("return 1")()`,
	`const f=()=>{}; new f.constructor("return 1")()`,
	`const f=()=>{}; const C=f.constructor; C("return 1")()`,
	`const {constructor:C}=()=>{}; C("return 1")()`,
	`const {constructor:{constructor:C}}={}; C("return 1")()`,
	`function f({constructor:C}=()=>{}){return C("return 1")()}`,
	`const P=Object.getPrototypeOf(async function(){}); new P.constructor("return 1")()`,
	`const A=Object.getPrototypeOf(async function(){}).constructor; new A("return 1")()`,
	`Reflect.get(()=>{},"constructor")("return 1")()`,
	`Object.getOwnPropertyDescriptor(Object.getPrototypeOf(()=>{}),"constructor").value("return 1")()`,
	`Function.prototype.constructor.call(null,"return 1")()`,
	`Function.constructor.apply(null,["return 1"])()`,
	`Function.prototype.call.call(Function,null,"return 1")()`,
	`Reflect.construct(Function,["return 1"])()`,
	`class F extends Function{}; new F("return 1")()`,
	`new (class extends (()=>{}).constructor{})("return 1")()`,
	`[]["con"+"structor"]["con"+"structor"]("return 1")()`,
	`[]["xconstructor".slice(1)]["xconstructor".slice(1)]("return 1")()`,
	`const k="CONSTRUCTOR".toLowerCase(); [][k][k]("return 1")()`,
	`const k="con".concat("structor"); [][k][k]("return 1")()`,
	`const k="conXstructor".replace("X",""); [][k][k]("return 1")()`,
	`const k=Object.keys({constructor:1})[0]; [][k][k]("return 1")()`,
	`for (const k in {constructor:1}) [][k][k]("return 1")()`,
	"const k=String.raw`constructor`; [][k][k](\"return 1\")()",
	"const k=`con${\"struct\"}or`; [][k][k](\"return 1\")()",
	`const k=String.fromCharCode(99,111)+"nstructor"; [][k][k]("return 1")()`,
	`const k=String.fromCharCode(...[99,111,110]); globalThis[k]`,
	`const k=[..."rotcurtsnoc"].reverse().join(""); [][k][k]("return 1")()`,
	`const a=["constructor"]; [][a[0]][a[0]]("return 1")()`,
	`const a={k:"constructor"}; [][a.k][a.k]("return 1")()`,
	"[].at.constructor`return 1`()",
	`eval?.(x)`,
	`(0,eval)(x)`,
	`const {eval:e}=globalThis; e(x)`,
	`globalThis?.["eval"]?.(x)`,
	`\u0065val(x)`,
	`class A{static{eval(x)}}`,
	`class A{static #p=eval; static go(){return A.#p(x)}}`,
	`function*g(){yield eval} g().next().value(x)`,
	`async function f(){for await(const e of [eval]) e(x)}`,
	`JSON.stringify({...process.env})`,
	`const {...all}=process.env; send(all)`,
	`const {env:{...all}}=process; send(all)`,
	`const o={}; o.e=process.env; send(o.e)`,
	`class A{e=process.env}; send(new A().e)`,
	`send(process)`,
	`Object.entries(process).find(([k])=>k==="env")[1]`,
	`const {env}=process; send(env)`,
	`import {env as e} from "node:process"; send(e)`,
	`import p from "node:process"; send(p["e"+"nv"])`,
	`const f=p=>p.env; send(f(process))`,
	`const s=x=>JSON.stringify(x); const e=process.env; s(e)`,
	`process.execve("/bin/sh",["sh"])`,
	`process.binding("spawn_sync")`,
	`const {binding}=process; binding("spawn_sync")`,
	`const p=process; p.binding.call(p,"spawn_sync")`,
	`Reflect.get(process,"binding")("spawn_sync")`,
	`import vm from "node:vm"; vm.runInThisContext(x)`,
	`import fs from "fs"; fs.writeFileSync("/etc/passwd",x)`,
	`import {promises as p} from "fs"; p.writeFile("/etc/passwd",x)`,
	`import p from "fs/promises"; p["writeFile"]("/etc/passwd",x)`,
	`import fs from "fs"; fs.cpSync("x","/etc/passwd")`,
	`import fs from "fs"; fs.renameSync("x","/etc/passwd")`,
	`import fs from "fs"; fs.openSync("/etc/passwd","w")`,
	`import fs from "fs"; fs.writeSync(3.0,"x"); fs.writeSync(0x3,"x")`,
	"#!/usr/bin/env node\neval(x)",
	"x<!--a\neval(x)",
	"//# sourceMappingURL=data:application/json;base64,e30=\neval(x)",
	`a:for(;;){continue a} eval(x)`,
	`return eval(x)`,
	`await eval(x)`,
	`using x = eval`,
	`import.meta.require`,
	`const {a=eval}={}; a(x)`,
	`label: { break label } var y = {get e(){return eval}}; y.e(x)`,
	"tag`${eval}`",
	"new Function`return 1`()",
	`import c from "./x.node"`,
	`process.on("exit",()=>{}).emit.constructor("x")()`,
	`const e=process.mainModule`,
	`import {runInNewContext} from "vm"; `,
	`import {constants} from "node:inspector/promises"`,
	`let x=a1;x=a2;x=a3;x=a4;x=a5;x=a6;x=a7;x=a8;x=a9;x=b1;x=b2;x=b3;x=b4;x=b5;x=b6;x=b7;x=b8;x=require;x("child_process")`,
}

// tsEvasions are such ways in TypeScript.
var tsEvasions = []string{
	`import cp = require("child_process"); cp.execSync(x)`,
	`enum E { a = eval("1") as any }`,
	`namespace N { export const e = eval } N.e(x)`,
	`@eval class A {}`,
	`const g = <any>globalThis; g[k](x)`,
	`const g = globalThis as any; g![k](x)`,
	`class A { constructor(private e = eval){} }`,
}

// jsHonest are sources that look like evasions and are none.
var jsHonest = []string{
	`const process = (x) => x + 1; exports.run = (list) => list.map(process)`,
	`exports.run = (list) => { const window = list.slice(3); return sum(window) }`,
	`function f({ global }) { return g(global) }`,
	`function f(){return arguments[1]} f(1,2); const o={m(){return arguments.length}}`,
	`x=Function.prototype.toString.call(f); class A{clone(){return new this.constructor(1)}} if (require.main===module) main(); const run=promisify(execFile); y=typeof process!=="undefined"&&process.versions; z=x.constructor.name`,
	`import {execFile} from "child_process"; import {promisify} from "util"; const run=promisify(execFile); await run("ls",["-l"],{env:{...process.env,A:"1"}})`,
	"var self=this; function Foo(){ this.a=1; var me=this; fn.apply(this, arguments); } " +
		"Foo.prototype.x=function(){return this}; const env={...process.env}; const g=globalThis; g.fetch(\"x\"); " +
		"x===Function; v.constructor===Object\n",
}

// waits reports whether a source waits for a person, for another reason than that
// it cannot be read.
func waits(t *testing.T, kind haft.Kind, source string) (bool, string) {
	t.Helper()
	report, err := review.New(review.Config{}).Review(t.Context(), kind, source)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Severity.AtLeast(haft.SeverityHigh) && f.Rule != "source-unreadable" {
			return true, listed(report)
		}
	}
	return false, listed(report)
}

func TestEvasion_javascript(t *testing.T) {
	for _, source := range jsEvasions {
		if ok, report := waits(t, haft.KindJavaScript, source); !ok {
			t.Errorf("it got through: %q\n%s", report, source)
		}
	}
	for _, source := range tsEvasions {
		if ok, report := waits(t, haft.KindTypeScript, source); !ok {
			t.Errorf("it got through: %q\n%s", report, source)
		}
	}
	for _, source := range jsHonest {
		if ok, report := waits(t, haft.KindJavaScript, source); ok {
			t.Errorf("it is honest, and yet: %q\n%s", report, source)
		}
	}
}

// TestReview_javascript_constants: 240 kB that put a text together again and again
// took 20 seconds and 2 GB.
func TestReview_javascript_constants(t *testing.T) {
	all := []string{"y=x+'b';\n", "y=`${x}b`;\n", "y=[x,''].join('');\n", "y=x.split('').join('');\n"}
	if skiptest.Race {
		all = all[:1]
	}
	for _, again := range all {
		source := "let x='" + strings.Repeat("a", 60_000) + "';\n" + strings.Repeat(again, 180_000/len(again))
		report, err := review.New(review.Config{}).Review(t.Context(), haft.KindJavaScript, source)
		if err != nil || !strings.Contains(listed(report), "source-complex") {
			t.Errorf("%q again and again: %q, %v", again, listed(report), err)
		}
		if len(report.Findings) > 10 {
			t.Errorf("%q again and again: %d findings, so every text was made", again, len(report.Findings))
		}
	}
}
