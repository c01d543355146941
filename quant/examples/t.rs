use qrun_quant::Gguf;
fn main() {
    let p = std::env::args().nth(1).unwrap();
    for _ in 0..60 {
        let t = std::time::Instant::now();
        let g = Gguf::open(p.as_ref()).unwrap();
        let open = t.elapsed();
        let t = std::time::Instant::now();
        let n = 0;
        println!("open {open:?}, walk tokens {:?} {n}", t.elapsed());
    }
}
