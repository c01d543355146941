//! Dates as text: for templates that tell the model today's date, and for reports.
//!
//! They are UTC: the standard library knows no time zones, and a day's difference in a prompt is not worth a
//! dependency.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment in the civil calendar, UTC.
struct Civil {
    year: i64,
    /// 1 … 12.
    month: usize,
    /// 1 … 31.
    day: i64,
    /// 0 (Sunday) … 6.
    weekday: usize,
    /// 1 … 366.
    day_of_year: i64,
    /// Seconds since midnight.
    second: i64,
}

impl Civil {
    /// Days to a date by counting from 1 March of year 0, where leap days fall at the end of a year
    /// (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
    fn from_unix(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_from_march = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_from_march + 2) / 153;
        let day = day_from_march - (153 * march_month + 2) / 5 + 1;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let day_of_year = if month <= 2 { day_from_march - 305 } else { day_from_march + 60 + i64::from(leap) };
        Self {
            year,
            month: month as usize,
            day,
            weekday: (days + 4).rem_euclid(7) as usize,
            day_of_year,
            second: seconds.rem_euclid(86_400),
        }
    }
}

/// `now` written as `format` says, with the directives of Python's `strftime` that dates and times need.
///
/// # Errors
/// The directive that is not known.
pub fn strftime(now: SystemTime, format: &str) -> Result<String, String> {
    let seconds = match now.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_secs() as i64,
        Err(before) => -(before.duration().as_secs() as i64),
    };
    let t = Civil::from_unix(seconds);
    let (month, weekday) = (MONTHS[t.month - 1], DAYS[t.weekday]);
    let (hour, minute, second) = (t.second / 3600, t.second / 60 % 60, t.second % 60);
    let hour12 = (hour + 11) % 12 + 1;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        // glibc's `%-d`: no padding.
        let (bare, directive) = match chars.next() {
            Some('-') => (true, chars.next()),
            directive => (false, directive),
        };
        let number = |value: i64, width: usize| if bare { value.to_string() } else { format!("{value:0width$}") };
        out.push_str(&match directive {
            Some('Y') => t.year.to_string(),
            Some('y') => number(t.year.rem_euclid(100), 2),
            Some('m') => number(t.month as i64, 2),
            Some('d') => number(t.day, 2),
            Some('e') => format!("{:2}", t.day),
            Some('j') => number(t.day_of_year, 3),
            Some('B') => month.to_string(),
            Some('b' | 'h') => month[..3].to_string(),
            Some('A') => weekday.to_string(),
            Some('a') => weekday[..3].to_string(),
            Some('w') => t.weekday.to_string(),
            Some('H') => number(hour, 2),
            Some('I') => number(hour12, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('p') => (if hour < 12 { "AM" } else { "PM" }).to_string(),
            Some('F') => format!("{}-{:02}-{:02}", t.year, t.month, t.day),
            Some('D' | 'x') => format!("{:02}/{:02}/{:02}", t.month, t.day, t.year.rem_euclid(100)),
            Some('T' | 'X') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('R') => format!("{hour:02}:{minute:02}"),
            Some('Z') => "UTC".to_string(),
            Some('z') => "+0000".to_string(),
            Some('s') => seconds.to_string(),
            Some('%') => "%".to_string(),
            other => {
                return Err(format!("strftime_now: unknown directive %{}", other.map_or(String::new(), String::from)));
            }
        });
    }
    Ok(out)
}
