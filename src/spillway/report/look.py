"""The style sheet and the script that every page carries inside itself."""

from spillway.report import ink, layers
from spillway.report.ink import ON_DARK, ON_LIGHT

# What each drawing carries to stand alone; on a page it stands once, at the top.
DRAWINGS = (ink.STYLE, layers.STYLE)

STYLE = (
    f":root{{{ON_LIGHT}color-scheme:light dark;--card:#f6f8fa;--good:#00704f;--warn:#8a5a00;--bad:#b3261e}}"
    f"@media(prefers-color-scheme:dark){{:root{{{ON_DARK}--card:#1f252b;--good:#4fd3a5;--warn:#f0b429;--bad:#ff8a80}}}}"
    """
*{box-sizing:border-box}
body{margin:0 auto;padding:1.2rem;max-width:72rem;background:var(--paper);color:var(--ink);
  font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;line-height:1.2;margin:.2rem 0}
h2{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--grid);padding-bottom:.2rem}
p{margin:.5rem 0;max-width:46rem}
.subtitle,figcaption,caption{color:var(--soft)}
.chart{margin:.6rem 0}
.scroll,pre{overflow-x:auto}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:.5rem}
table{border-collapse:collapse;font-size:.92rem;margin:.6rem 0;font-variant-numeric:tabular-nums}
caption{text-align:left;padding:.2rem 0}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top}
th button{all:unset;cursor:pointer;font-weight:600}
th button:focus-visible,.entry:focus-visible{outline:2px solid var(--c0);outline-offset:2px}
th[aria-sort=ascending] button::after{content:" ▲"}
th[aria-sort=descending] button::after{content:" ▼"}
td.figure,th.figure{text-align:right}td.figure,td.good,td.warn,td.bad,th button{white-space:nowrap}
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}.quiet{color:var(--soft)}
td.long{min-width:12rem}td.good,td.warn,td.bad{font-weight:600}
label{display:inline-block;margin:.2rem 1rem .2rem 0}
select{font:inherit;padding:.2rem;max-width:100%;background:var(--card);color:var(--ink);border:1px solid var(--soft);
  border-radius:4px}
#readout{position:fixed;z-index:1;pointer-events:none;background:var(--card);border:1px solid var(--soft);
  border-radius:4px;padding:.25rem .5rem;font-size:.8rem;font-variant-numeric:tabular-nums;max-width:90vw}
.hair{stroke:var(--soft);stroke-width:1}
.verdicts{list-style:none;padding:0;max-width:52rem}
.verdicts li{border-left:6px solid var(--grid);padding:.1rem .7rem;margin:.5rem 0}
.verdicts .level1{border-color:#2b8cc4}.verdicts .level2{border-color:#e6b93c}
.verdicts .level3{border-color:#e08a1e}.verdicts .level4{border-color:#d55e00}
[hidden]{display:none!important}
footer{margin-top:2.5rem;color:var(--soft);font-size:.85rem}
@media(max-width:40rem){body{padding:.7rem;font-size:15px}th,td{padding:.25rem .4rem}h1{font-size:1.3rem}}
"""
    f"@media print{{:root{{{ON_LIGHT}--card:#fff;--good:#00704f;--warn:#8a5a00;--bad:#b3261e}}"
    """
body{max-width:none;padding:0;font-size:10.5pt}.controls{display:none}.chart{max-width:16cm!important}
h2{break-after:avoid}#readout,.hair{display:none}svg,tr{break-inside:avoid}.scroll{overflow:visible}table{font-size:9pt}}
"""
)

# Sorting is stable, so sorting by one column and then another sorts by both.
SCRIPT = """
"use strict";
function toggle(entry){
  const svg=entry.closest("svg"),off=entry.classList.toggle("off");
  entry.setAttribute("aria-pressed",String(!off));
  svg.querySelectorAll('.series[data-series="'+entry.dataset.series+'"]').forEach(s=>s.classList.toggle("off",off));
}
function sortBy(th){
  const table=th.closest("table"),body=table.tBodies[0],at=th.cellIndex;
  const down=th.getAttribute("aria-sort")==="ascending";
  const value=row=>{const cell=row.cells[at],v=cell.dataset.sort;return v===undefined?cell.textContent:v};
  const compare=(a,b)=>{
    const x=Number(a),y=Number(b);
    if(a!==""&&b!==""&&!Number.isNaN(x)&&!Number.isNaN(y))return x-y;
    if(a===""||b==="")return (a==="")-(b==="");
    return a.localeCompare(b);
  };
  const rows=[...body.rows].sort((a,b)=>{
    const x=value(a),y=value(b);
    return x===""||y===""?compare(x,y):(down?-1:1)*compare(x,y);
  });
  for(const other of table.tHead.rows[0].cells)other.removeAttribute("aria-sort");
  th.setAttribute("aria-sort",down?"descending":"ascending");
  body.append(...rows);
}
function choose(panels){
  const choice=[...panels.querySelectorAll(".controls select")].map(select=>select.selectedIndex).join(",");
  for(const panel of panels.children)
    if(panel.classList.contains("panel"))panel.hidden=panel.dataset.choice!==choice;
}
function chosen(name,value){
  for(const select of document.querySelectorAll('.panels select[name="'+name+'"]')){
    const at=[...select.options].findIndex(option=>option.text===value);
    if(at>=0)select.selectedIndex=at;
    choose(select.closest(".panels"));
  }
}
document.addEventListener("change",event=>{
  const select=event.target.closest(".panels select");
  if(select)chosen(select.name,select.options[select.selectedIndex].text);
});
const lines=new WeakMap();
function points(path){
  if(!lines.has(path)){
    const numbers=path.getAttribute("d").match(/-?[0-9.]+/g).map(Number),found=[];
    for(let i=0;i+1<numbers.length;i+=2)found.push([numbers[i],numbers[i+1]]);
    lines.set(path,found);
  }
  return lines.get(path);
}
function unplace(scale,pixel){
  const [start,end,low,high,log]=scale.split(" ").map(Number),share=(pixel-start)/(end-start);
  return log?low*Math.pow(high/low,share):low+share*(high-low);
}
function told(value){return Number(value.toPrecision(3)).toLocaleString("en",{maximumFractionDigits:4})}
function read(event){
  const old=document.getElementById("readout"),svg=event.target.closest("svg.chart[data-x]");
  document.querySelectorAll(".hair").forEach(hair=>hair.remove());
  if(old)old.remove();
  if(!svg)return;
  const box=svg.getBoundingClientRect(),pixel=(event.clientX-box.left)*svg.viewBox.baseVal.width/box.width;
  const [left,right]=svg.dataset.x.split(" ").map(Number),[bottom,top]=svg.dataset.y.split(" ").map(Number);
  if(pixel<left-8||pixel>right+8)return;
  const entries=[...svg.querySelectorAll(".entry title")].map(title=>title.textContent),rows=[];
  let at=null;
  for(const series of svg.querySelectorAll(".series:not(.off)")){
    const path=series.querySelector("path.line");
    if(!path)continue;
    const near=points(path).reduce((a,b)=>Math.abs(b[0]-pixel)<Math.abs(a[0]-pixel)?b:a);
    if(at===null||Math.abs(near[0]-pixel)<Math.abs(at-pixel))at=near[0];
    rows.push([entries[series.dataset.series]||"",near]);
  }
  if(at===null)return;
  const hair=document.createElementNS("http://www.w3.org/2000/svg","line");
  for(const [name,value] of [["class","hair"],["x1",at],["x2",at],["y1",top],["y2",bottom]])
    hair.setAttribute(name,value);
  svg.append(hair);
  const out=document.createElement("div");
  out.id="readout";
  out.textContent="at "+told(unplace(svg.dataset.x,at));
  for(const [name,near] of rows){
    if(Math.abs(near[0]-at)>6)continue;
    const row=document.createElement("div");
    row.textContent=(name?name+": ":"")+told(unplace(svg.dataset.y,near[1]));
    out.append(row);
  }
  document.body.append(out);
  const wide=out.offsetWidth,x=event.clientX+14+wide>innerWidth?event.clientX-14-wide:event.clientX+14;
  out.style.left=Math.max(4,x)+"px";
  out.style.top=Math.min(event.clientY+14,innerHeight-out.offsetHeight-4)+"px";
}
document.addEventListener("pointermove",read);
document.addEventListener("pointerdown",read);
document.addEventListener("click",event=>{
  const entry=event.target.closest("svg .entry");
  if(entry)toggle(entry);
  const link=event.target.closest("svg.graph a");
  if(link&&link.dataset.choice)chosen("operator",link.dataset.choice);
  const button=event.target.closest("th button");
  if(button)sortBy(button.closest("th"));
});
document.addEventListener("keydown",event=>{
  if(event.key!=="Enter"&&event.key!==" ")return;
  const entry=event.target.closest("svg .entry");
  if(entry){event.preventDefault();toggle(entry)}
});
"""
